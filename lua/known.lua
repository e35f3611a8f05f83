-- What acquire and correct ask before they decide. The first fields that they read are these.
local fields = { 'clock', 'epoch', 'quiet', 'void', 'trimmed', 'count', 'wrong', '=' .. ARGV[1], '=' .. ARGV[3] }

-- missed says whether the log is another than this host knows. The first that misses something draws another
-- epoch, so that all others put back what they have. What restore would not add is not missed.
local function missed(s, last, now)
  if s[2] ~= ARGV[4] then return true end
  local has = ARGV[3] == '' or s[9] or ARGV[7] * 1 <= math.max(s[5] or 0, now - ARGV[6])
  has = has or misdated(ARGV[7] * 1, s[7], last)
  if last >= ARGV[5] * 1 and has then return false end
  redis.call('HSET', state, 'epoch', ARGV[8], 'quiet', string.format('%.0f', clock + QUIET))
  return true
end

-- hushed returns until when the log is quiet: by TIME, which the log's own clock may be far ahead of, and no longer
-- than from now on, also where TIME was set back.
local function hushed(quiet)
  if not quiet or clock >= math.min(quiet, clock + QUIET) then return nil end
  if quiet * 1 > clock + QUIET then
    quiet = clock + QUIET
    redis.call('HSET', state, 'quiet', string.format('%.0f', quiet))
  end
  return quiet * 1
end

-- known returns the answer that does not depend on what is asked, if there is one.
local function known(s, last, now)
  if missed(s, last, now) then return { 'lost', clock, last } end
  local at = s[8] and redis.call('ZSCORE', log, ARGV[1])
  if s[8] and not at or s[6] * 1 ~= redis.call('ZCARD', log) then -- one key was evicted, or edited
    redis.call('DEL', log, state)
    return { 'lost', clock, last }
  end
  if at then return { 'again', clock, last, at * 1, s[8], '' } end
  if ARGV[9] ~= '0' and clock > ARGV[9] * 1 then return { 'late', clock, last } end
  local quiet = hushed(s[3])
  return quiet and { 'quiet', clock, last, quiet }
end

-- What acquire and correct ask before they decide.

-- missed says whether the log is another than this host knows. The first that misses something draws another
-- epoch, so that all others put back what they have. What restore would not add is not missed.
local function missed(epoch, last, trimmed, known, now, wrong)
  if epoch ~= ARGV[4] then return true end
  local has = ARGV[3] == '' or known or ARGV[7] * 1 <= math.max(trimmed or 0, now - ARGV[6])
  has = has or misdated(ARGV[7] * 1, wrong, last)
  if last >= ARGV[5] * 1 and has then return false end
  redis.call('HSET', state, 'epoch', ARGV[8], 'quiet', string.format('%.0f', clock + QUIET))
  return true
end

local function late() return ARGV[9] ~= '0' and clock > ARGV[9] * 1 end

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

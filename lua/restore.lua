-- Adds the entries that a log lacks, each at its own time, and begins a log where there is none. A host calls it when
-- it starts, when the answer is lost, and for what it granted while Redis was away.
--
-- KEYS  as acquire's · ARGV  1 an epoch, if the log has none · 2 the epoch of this restore's first page, or empty ·
--       3 keep, µs · 4 1: pages follow · then of each entry: id · time in µs · 1: a host granted it alone · entry
-- reply epoch · TIME · time of the newest entry · how many were added; or lost

-- asked returns what a grant was asked for, as a part of an id.
local function asked(entry)
  return (string.gsub(string.match(entry, '^[^\n]*\ngrant (%S+ %d+ %S+)') or '', ' ', '/'))
end

local s = redis.call('HMGET', state, 'clock', 'epoch', 'quiet', 'trimmed', 'count', 'void', 'wrong')
local epoch, last, void, wrong = s[2], (s[1] or 0) * 1, (s[6] or 0) * 1, (s[7] or 0) * 1
if ARGV[2] ~= '' and epoch ~= ARGV[2] then return { 'lost' } end
local now, added, quiet = math.max(clock, last), 0, s[3] and clock < s[3] * 1
if not epoch then -- nothing is granted before all hosts have looked
  epoch, quiet = ARGV[1], true
  redis.call('DEL', log, state)
  redis.call('HSET', state, 'epoch', epoch, 'server', server(), 'quiet', string.format('%.0f', clock + QUIET))
end
for i = 5, #ARGV, 4 do
  local id, at, entry = ARGV[i], ARGV[i + 1] * 1, ARGV[i + 3]
  if ARGV[i + 2] == '1' then at = math.min(now, at) end -- a host's own clock may be ahead
  if misdated(at, wrong, last) then at, entry = 0, '' end
  local wrote, what, of, number, why = at, corrected(entry)
  local request = asked(entry)
  if request ~= '' then -- another one than that of a known id, which a host granted alone, has an id of its own
    local first = string.match(id, '^[^/]+')
    local has = redis.call('HGET', state, '=' .. first)
    id = has and asked(has) ~= request and first .. '/' .. request or first
  end
  if what == 'close' then close(of, number * 1, wrote, why) end -- these two may be put twice, and be older than keep
  if what == 'reset' then
    void = math.max(void, wrote)
    wrong = math.max(wrong, number * 1)
    redis.call('HSET', state, 'void', string.format('%.0f', void), 'wrong', string.format('%.0f', wrong))
  end
  if at > math.max(now - ARGV[3], (s[4] or 0) * 1) and redis.call('HSETNX', state, '=' .. id, entry) == 1 then
    while redis.call('ZCOUNT', log, string.format('%.0f', at), string.format('%.0f', at)) > 0 do at = at + 1 end
    redis.call('ZADD', log, at, id)
    last, now, added = math.max(last, at), math.max(now, at), added + 1
    for name, units in string.gmatch(string.match(entry, '^[^\n]*'), ' ([^ =]+)=(%d+)') do
      count(name, at, units * 1)
    end
    settle(id)
    if what == 'settle' then
      local known = redis.call('HGET', state, '~' .. of)
      if not known or string.match(known, '%d+$') * 1 < wrote then
        redis.call('HSET', state, '~' .. of, string.format('%s %.0f', number, wrote))
        settle(of)
      end
    end
  end
end
redis.call('HSET', state, 'clock', string.format('%.0f', last), 'count', (s[2] and s[5] or 0) + added)
if added > 0 then redis.call('HINCRBY', state, 'back', 1) end
if ARGV[4] == '1' and (quiet or added > 0) then
  redis.call('HSET', state, 'quiet', string.format('%.0f', clock + QUIET))
end
return { epoch, clock, last, added }

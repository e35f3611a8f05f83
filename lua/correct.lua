-- Settles a grant, resets a log, closes or opens a limit; each is an entry that charges nothing.
--
-- KEYS  as acquire's · ARGV  1 to 9 as acquire's; line 2 of the entry says what is done: settle GRANT UNITS ·
--       reset - 0, answered with the last µs of a clock that was wrong · close LIMIT UNTIL, in µs; 0: it opens
-- reply as acquire's: done at · entry, or empty: nothing changed · the grant as it was, or empty · gone now · over now:
--       a sum would exceed the greatest number · again at entry · lost · late · quiet until

local what, of, number, why = corrected(ARGV[2])
fields[10], fields[11], fields[12] = '=' .. of, '~' .. of, 'server'
local s = redis.call('HMGET', state, unpack(fields))
local last = (s[1] or 0) * 1
local now = clock > last and clock or last + 1
local answered = known(s, last, now)
if answered then return answered end
if what == 'settle' then
  local at = redis.call('ZSCORE', log, of)
  if not at or at * 1 <= math.max(now - ARGV[6], (s[4] or 0) * 1) or string.sub(s[10] or '', 1, 1) ~= ' ' then
    return { 'gone', clock, last, now }
  end
  if s[11] and string.match(s[11], '^%d+') == number then return { 'done', clock, last, now, '', s[10] } end
  local _, list = changes(s[10], number * 1)
  for j = 1, #list, 2 do
    for w in string.gmatch(redis.call('HGET', state, '@' .. list[j]) or '', '%d+') do
      local sum = redis.call('HGET', state, '+' .. list[j] .. ' ' .. w) or 0
      if sum + list[j + 1] > NONE then return { 'over', clock, last, now } end
    end
  end
  redis.call('HSET', state, '~' .. of, number .. ' ' .. string.format('%.0f', now))
  settle(of)
elseif what == 'reset' then
  if last > clock + AHEAD then -- another log begins, at TIME
    local wrong = string.format('%.0f', math.max(last, s[7] or 0))
    redis.call('DEL', log, state)
    redis.call('HSET', state, 'epoch', ARGV[8], 'server', s[12], 'wrong', wrong, 'trimmed',
      string.format('%.0f', clock))
    now, s[6] = clock, 0
    ARGV[2] = string.gsub(ARGV[2], '%d+', wrong, 1)
  end
  redis.call('HSET', state, 'void', string.format('%.0f', now)) -- closings older than that are over, too
else
  close(of, number * 1, now, why)
end
redis.call('ZADD', log, now, ARGV[1])
redis.call('HSET', state, 'clock', string.format('%.0f', now), 'count', s[6] + 1, '=' .. ARGV[1], ARGV[2])
return { 'done', clock, now, now, ARGV[2], s[10] or '' }

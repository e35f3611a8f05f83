-- Reads a page of the log; it only reads.
--
-- KEYS  as acquire's · ARGV  1 after which time, µs · 2 before which, if it is not empty: newest first · 3 how many ·
--       4 an id, if it is that entry alone
-- reply epoch, or empty · how often entries came back · and of each entry id · time · entry

local s = redis.call('HMGET', state, 'epoch', 'back')
local page, reply = {}, { s[1] or '', (s[2] or 0) * 1 }
if ARGV[4] then
  page = { ARGV[4], redis.call('ZSCORE', log, ARGV[4]) or nil }
elseif ARGV[2] ~= '' then
  page = redis.call('ZREVRANGEBYSCORE', log, '(' .. ARGV[2], '(' .. ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[3])
else
  page = after(ARGV[1] * 1, ARGV[3])
end
if #page < 2 then return reply end
for j, entry in ipairs(entries(page)) do
  local n = #reply
  if entry then reply[n + 1], reply[n + 2], reply[n + 3] = page[2 * j - 1], page[2 * j] * 1, entry end
end
return reply

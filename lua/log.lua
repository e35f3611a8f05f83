-- Reads one page of the log. Writes nothing.
--
-- KEYS  1 log · 2 settled
-- ARGV  1 the entry to continue behind, empty to begin · 2 nothing older than this ms ·
--       3 1 for newest first, else 0 · 4 the greatest number of entries
-- reply [per entry: its id, its fields, units it was settled to or empty]

local log, settled = KEYS[1], KEYS[2]
local after, since, newest, most = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]
local entries
if newest then
  entries = redis.call('XREVRANGE', log, after == '' and '+' or '(' .. after, since, 'COUNT', most)
else
  local from = since
  if after ~= '' and (id_parts(after)) >= tonumber(since) then from = '(' .. after end
  entries = redis.call('XRANGE', log, from, '+', 'COUNT', most)
end
local reply = {}
for _, entry in ipairs(entries) do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = entry[1], entry[2], redis.call('HGET', settled, entry[1]) or ''
end
return reply

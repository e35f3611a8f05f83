-- Reads what the hosts share about a job, and the lines about its runs that are new.
-- Writes nothing.
--
-- KEYS  1 shared · 2 log
-- ARGV  1 the line read last, empty for all · 2 how many lines at most
-- reply [who holds the job now, empty if nobody does, how many parts, then per part:
--       its name, its text, then per line: its name, its text]

local shared, log = KEYS[1], KEYS[2]
local after, most = ARGV[1], ARGV[2]
local holder, holds_until, parts = '', 0, {}
local all = redis.call('HGETALL', shared)
for i = 1, #all, 2 do
  local name = string.match(all[i], '^p:(.+)$')
  if name then
    parts[#parts + 1], parts[#parts + 2] = name, all[i + 1]
  elseif all[i] == 'holder' then
    holder = all[i + 1]
  elseif all[i] == 'until' then
    holds_until = tonumber(all[i + 1])
  end
end
if holds_until <= clock_ms then holder = '' end

local reply = { holder, #parts / 2 }
for i = 1, #parts do reply[#reply + 1] = parts[i] end
for _, entry in ipairs(redis.call('XRANGE', log, after == '' and '-' or '(' .. after, '+', 'COUNT', most)) do
  reply[#reply + 1], reply[#reply + 2] = entry[1], entry[2][2]
end
return reply

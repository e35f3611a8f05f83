-- Reads what the hosts share about a job. Writes nothing.
--
-- KEYS  1 desk
-- ARGV  (none)
-- reply [who holds the job now, empty if nobody does, then per part: its name, its text]

local desk = KEYS[1]
local holder, holds_until, parts = '', 0, {}
local all = redis.call('HGETALL', desk)
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
if holds_until <= clock() then holder = '' end
return { holder, unpack(parts) }

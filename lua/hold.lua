-- Gives a job to a holder for a time, unless another one holds it. What is held
-- need not be given back: the time ends by itself. What was not given back in time
-- is named first, and given to who names it again: its holder may have been cut off
-- like everybody, and comes back meanwhile. Nobody holds it for a slot that another one
-- has claimed; without the key of a slot it is held for none.
--
-- KEYS  1 shared · 2 slot
-- ARGV  1 the holder · 2 for how many ms · 3 after how many ms what is shared is forgotten that
--       nobody uses · 4 what has lapsed, as it was named before, or empty
-- reply [status, ms for which another holder has it still, or what has lapsed]:
--       held · busy · lapsed · taken

local shared, slot = KEYS[1], KEYS[2]
local holder, length, forgotten, watched = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local claimant = slot and redis.call('GET', slot)
if claimant and claimant ~= holder then return { 'taken', 0 } end
local got = redis.call('HMGET', shared, 'holder', 'until')
if got[1] and got[1] ~= holder then
  local left = (tonumber(got[2]) or 0) - clock_ms
  if left > 0 then return { 'busy', left } end
  local lapsed = got[1] .. ' ' .. got[2]
  if lapsed ~= watched then return { 'lapsed', lapsed } end
end
redis.call('HSET', shared, 'holder', holder, 'until', clock_ms + length)
redis.call('PEXPIRE', shared, forgotten)
return { 'held', 0 }

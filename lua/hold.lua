-- Gives a job to a holder for a time, unless another one holds it. What is held
-- need not be given back: the time ends by itself.
--
-- KEYS  1 desk
-- ARGV  1 the holder · 2 for how many ms · 3 after how many ms a desk is forgotten that
--       nobody uses
-- reply [status, ms for which another holder has it still]: held · busy

local desk = KEYS[1]
local holder, length, forgotten = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local now = clock()
local got = redis.call('HMGET', desk, 'holder', 'until')
local left = (tonumber(got[2]) or 0) - now
if got[1] ~= holder and left > 0 then return { 'busy', left } end
redis.call('HSET', desk, 'holder', holder, 'until', int(now + length))
redis.call('PEXPIRE', desk, forgotten)
return { 'held', 0 }

-- Replaces the record of a subject, or the head that hosts share, if it is still the one that its
-- caller has read.
--
-- KEYS  1 subject
-- ARGV  1 the SHA-1 of the record that was read, in hex, of an empty one where there was none; empty:
--       nothing was read yet · 2 the record from now on · 3 ms at which nothing in it counts any more ·
--       4 not after, the clock in ms
-- reply server's clock in ms · + if the record is replaced, else - and the record as it is: in one string

local subject = KEYS[1]
local record = redis.call('GET', subject) or ''
if ARGV[1] ~= redis.sha1hex(record) or clock_ms > ARGV[4] * 1 then return clock_text .. '-' .. record end
redis.call('SET', subject, ARGV[2], 'PX', math.max(1, ARGV[3] - clock_ms))
return clock_text .. '+'

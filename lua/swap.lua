-- Replaces a record if it is still the one that its caller has read.
--
-- KEYS  1 record
-- ARGV  1 the SHA-1 of the record that was read, in hex, of an empty one where there was none; empty:
--       nothing is written · 2 the record from now on · 3 ms at which it expires · 4 not after, the clock in ms
-- reply server's clock in ms · + if the record is replaced, else - and the record as it is: in one string

local record = KEYS[1]
local value = redis.call('GET', record) or ''
if ARGV[1] ~= redis.sha1hex(value) or clock_ms > ARGV[4] * 1 then return clock_text .. '-' .. value end
redis.call('SET', record, ARGV[2], 'PX', math.max(1, ARGV[3] - clock_ms))
return clock_text .. '+'

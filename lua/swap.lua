-- Replaces a record if it is still the one that its caller has read, and with it writes other keys of
-- the same slot.
--
-- KEYS  1 record · 2 others
-- ARGV  1 the SHA-1 of the record that was read, in hex, of an empty one where there was none; empty:
--       nothing is written · 2 the record from now on · 3 ms at which all that is written expires ·
--       4 not after, and · 5 not before, the clock in ms · then for each of the others what it has from now on
-- reply server's clock in ms · + if all is written, else - and the record as it is: in one string

local record = KEYS[1]
local value = redis.call('GET', record) or ''
if ARGV[1] ~= redis.sha1hex(value) or clock_ms > ARGV[4] * 1 or clock_ms < ARGV[5] * 1 then return clock_text .. '-' .. value end
local expiry = math.max(1, ARGV[3] - clock_ms)
redis.call('SET', record, ARGV[2], 'PX', expiry)
for k = 2, #KEYS do redis.call('SET', KEYS[k], ARGV[k + 4], 'PX', expiry) end
return clock_text .. '+'

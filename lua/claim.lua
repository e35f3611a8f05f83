-- Claims a slot of a job for whoever asks first. A claim is never taken back: it
-- expires when it is too late to claim the slot at all.
--
-- KEYS  1 slot · 2 shared
-- ARGV  1 the slot in ms · 2 who claims it, the same when asked again · 3 how many ms
--       after the slot it may still be claimed · 4 after how many ms what is shared
--       forgotten that nobody uses
-- reply [status, now in ms, the newest slot that was claimed before in ms, 0 if none
--       is known]: mine · taken · late

local slot, shared = KEYS[1], KEYS[2]
local ms, claimant, span, forgotten = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local now = clock_ms
local newest = tonumber(redis.call('HGET', shared, 'slot') or '0')
if newest > now + span then newest = 0 end -- somebody's clock was wrong

local expires_in = math.max(ms, now) + span - now
if ms + span <= now then return { 'late', now, newest } end
if not redis.call('SET', slot, claimant, 'NX', 'PX', expires_in) then
  local mine = redis.call('GET', slot) == claimant
  return { mine and 'mine' or 'taken', now, newest }
end
if ms > newest then redis.call('HSET', shared, 'slot', ms) end
redis.call('PEXPIRE', shared, forgotten)
return { 'mine', now, newest }

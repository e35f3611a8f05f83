-- Claims a slot of a job for whoever asks first. A claim is never taken back: it
-- expires when it is too late to claim the slot at all. A claim with which a run begins
-- adds the line that tells so, and is only for who holds the job.
--
-- KEYS  1 slot · 2 shared · 3 log
-- ARGV  1 the slot in ms · 2 who claims it, the same when asked again · 3 how many ms
--       after the slot it may still be claimed · 4 after how many ms what is shared
--       is forgotten that nobody uses · 5 the line, empty if no run begins · 6 how many
--       lines are kept, at least
-- reply [status, now in ms, the newest slot that was claimed before in ms, 0 if none
--       is known]: mine · taken · late · free (nobody has claimed it, and somebody else holds the job)

local slot, shared, log = KEYS[1], KEYS[2], KEYS[3]
local ms, claimant, span, forgotten = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local line, kept = ARGV[5], ARGV[6]
local now = clock_ms
local newest = tonumber(redis.call('HGET', shared, 'slot') or '0')
if newest > now + span then newest = 0 end -- somebody's clock was wrong

if ms + span <= now then return { 'late', now, newest } end
local owner = redis.call('GET', slot)
if owner then return { owner == claimant and 'mine' or 'taken', now, newest } end
if line ~= '' then
  if redis.call('HGET', shared, 'holder') ~= claimant then return { 'free', now, newest } end
  redis.call('XADD', log, 'MAXLEN', '~', kept, '*', 'l', line)
  redis.call('PEXPIRE', log, forgotten)
end
redis.call('SET', slot, claimant, 'PX', math.max(ms, now) + span - now)
if ms > newest then redis.call('HSET', shared, 'slot', ms) end
redis.call('PEXPIRE', shared, forgotten)
return { 'mine', now, newest }

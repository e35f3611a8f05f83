-- Stands in front of each script of a credential's log: the clock in µs, the greatest number, how long a log is
-- quiet, and the bounds of one call (lua.go puts the numbers in).
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local NONE, QUIET = 9007199254740991, $QUIET
local WORK, WALK, PAGE, TRIM = $WORK, $WALK, $PAGE, $TRIM
local AHEAD = 60000000 -- a log that is further ahead of TIME was written by a wrong clock
local log, state = KEYS[1], KEYS[2]

-- misdated says whether a wrong clock, which a reset ended, gave a time: it is to come, and not later than wrong.
local function misdated(at, wrong, last) return wrong and at <= wrong * 1 and at > math.max(clock, last) + AHEAD end

-- server returns which one this is: another process, or a promoted replica, may lack what its clients have seen.
local function server()
  local info, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
  return string.match(info, 'run_id:(%w+)') .. string.match(replication, 'master_replid:(%w+)')
end

-- Begins the quiet period of a log that lacks entries, or begins it anew, and stages entries that a
-- daemon knows of; merge puts them back.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view · 6 staged
-- ARGV  1… the head, as account.lua reads it · then the longest window in ms · the ms for which
--       nothing is granted, so that other daemons can stage theirs too; they stand in the quiet period's
--       name · 1 if the log is taken for what it is, 0 if it must be the one that the daemon knows ·
--       1 if the daemon has staged all that it knows with this call, 0 if more follows ·
--       and for each entry its id · the entry
-- reply [status, now in ms, epoch, newest entry, server's clock in ms]: done · lost (the log is not
--       the one known)

local span, length, whichever, all = tonumber(ARGV[4]), ARGV[5], ARGV[6] == '1', ARGV[7] == '1'
local staged = KEYS[6]
if not whichever and epoch ~= known_epoch then return answer('lost') end

-- A log that lacks something is another one from now on: else a daemon whose newest known entry
-- others put back would not notice that it lost its own. No daemon has staged yet what it knows of it.
if whichever and (emptied() or (epoch == known_epoch and lost())) then epoch, calls, mine = '', {}, nil end
begin()
if redis.call('XLEN', log) == 0 then -- every entry may have its own place again
  last_ms, last_seq, corrected = trimmed_ms, trimmed_seq, 0
  redis.call('DEL', settled)
end
quiet = boot .. int(call) .. '/' .. length
-- A daemon whose call is remembered has staged all that it knows, or written since.
if all and mine and mine.boot == boot then mine.ms = now end
if all and not (mine and mine.boot == boot) then remember('') end
drop_views()
local at = 8
while ARGV[at] do
  local ms, seq = string.match(ARGV[at], '^(%d+)-(%d+)$')
  redis.call('ZADD', staged, ms, string.format('%016.0f', tonumber(seq)) .. ' ' .. ARGV[at] .. ' ' .. ARGV[at + 1])
  at = at + 2
end
save()
keep(span)
redis.call('PEXPIRE', staged, expires - clock_ms)
save()
return answer('done')

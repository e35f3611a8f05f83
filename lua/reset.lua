-- Empties a credential's log, so that every limit starts from zero, and leaves a trace in the new
-- one. Ids only grow, unless the newest one is ahead of the clock: then the log begins again at
-- the clock. Asked again after a lost reply, a call takes nothing of what was granted since.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view · 6 staged
-- ARGV  1… the head, as account.lua reads it · then the trace · the longest window in ms
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, the trace's entry id]: done ·
--       stray (nobody waits for this call any more)

local trace, span = ARGV[4], tonumber(ARGV[5])
if stray() then return answer('stray') end
local written = done_before()
if not written then
  begin()
  redis.call('DEL', log, settled, requests, view, KEYS[6])
  drop_views()
  closed = {}
  if last_ms > clock_ms then
    before_reset, last_ms, last_seq, now = epoch, 0, 0, clock_ms
    draw_epoch()
  end
  written = next_id()
  append(written, trace)
  trimmed_ms, trimmed_seq, lost_ms, corrected = last_ms, last_seq, 0, 0
  remember(written)
  save()
  keep(span)
  save()
end
local reply = answer('done')
reply[7] = written
return reply

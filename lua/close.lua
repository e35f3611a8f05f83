-- Closes a limit until a time, or opens it, and leaves a trace in the log. A limit that is closed
-- until later stays so, and one that is open cannot be opened.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the trace · the limit's name · the ms until which
--       it is closed, or 0 to open it
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, the trace's
--       entry id, empty if nothing changed]
--       status  done · stray (nobody waits for this call any more) · or why the account is not ready

local trace, limit, until_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])
local unready = ready()
if unready then return refuse(unready) end
if stray() then return answer('stray') end

local written = done_before()
if not written then
  local held_ms = closed[limit] and closed[limit].until_ms > now and closed[limit].until_ms or 0
  local changes = until_ms > now and until_ms > held_ms or until_ms == 0 and held_ms > 0
  written = ''
  if changes then
    written = next_id()
    append(written, trace)
    note_closing(written, trace)
    fold()
    remember(written)
    keep(math.max(v.span, until_ms - now))
    save()
  end
end
local reply = answer('done')
reply[7] = written
return reply

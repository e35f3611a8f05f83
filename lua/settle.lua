-- Sets a grant to what was really spent, and leaves a trace in the log.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the grant's entry id · the units really
--       spent · the trace up to its charges
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, then of done: the id under
--       which it was granted · its entry · the id of the entry that settled it · that entry · per limit the
--       recorded charge in units, 0 where there is none, and the units used]
--       status  done · unknown (in no window, or not a grant) · overflow (a limit would hold
--               more than 2^53-1) · stray (nobody waits for this call any more) · or why the
--               account is not ready

local at = 7 + 4 * count
local id, to, trace = ARGV[at], ARGV[at + 1], ARGV[at + 2]
local T = tools()
local unready = T.ready()
if unready then return T.refuse(unready) end
if T.stray() then return T.answer('stray') end

id = T.placed(id)
local entry, granted = T.entry(id)
if not entry or string.sub(entry, 1, 1) ~= 'g' or not T.counted(id) then return T.answer('unknown') end
local settled_to, _, by = T.state(id)
local line = by ~= '0-0' and T.entry(T.placed(by)) or ''
if settled_to ~= to then
  for i = 1, count do
    if T.in_window(i, id) and v[5 + 5 * i + SUM] - T.units_now(i, id, entry) + tonumber(to) > T.MAX then
      return T.answer('overflow')
    end
  end
  line, by = T.settle(trace, id, granted, entry, to)
  T.fold()
  T.remember('-')
  T.keep_ahead()
  save()
end

local reply = T.answer('done')
reply[6], reply[7], reply[8], reply[9] = granted, entry, by, line
for i = 1, count do
  reply[8 + 2 * i], reply[9 + 2 * i] = T.recorded_in(i, entry), v[5 + 5 * i + SUM]
end
return reply

-- Sets a grant to what was really spent, and leaves a trace in the log.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the grant's entry id · the units really
--       spent · the trace up to its charges
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, then of done: the id under
--       which it was granted · its entry · the id of the entry that settled it · that entry · per limit the
--       recorded charge in units, 0 where there is none, and the units used]
--       status  done · unknown (in no window, or not a grant) · overflow (a limit would hold
--               more than 2^53-1) · stray (nobody waits for this call any more) · or why the
--               account is not ready

local id, to, trace = ARGV[4], ARGV[5], ARGV[6]
local unready = ready()
if unready then return refuse(unready) end
if stray() then return answer('stray') end

id = placed(id)
local entry, granted = entry_of(id)
if not entry or string.sub(entry, 1, 1) ~= 'g' or not counted(id) then return answer('unknown') end
local settled_to, _, by = state_of(id)
local line = by ~= '0-0' and entry_of(placed(by)) or ''
if settled_to ~= to then
  for i = 1, count do
    if in_window(i, id) and v[i].sum - units_now(i, id, entry) + tonumber(to) > MAX then
      return answer('overflow')
    end
  end
  line, by = settle(trace, id, granted, entry, to)
  fold()
  remember('')
  keep_ahead()
  save()
end

local reply = answer('done')
reply[7], reply[8], reply[9], reply[10] = granted, entry, by, line
for i = 1, count do
  reply[9 + 2 * i], reply[10 + 2 * i] = amount(recorded(entry), names[i]) or 0, v[i].sum
end
return reply

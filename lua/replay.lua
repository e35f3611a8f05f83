-- Books what a daemon granted on its own during an outage. Running it again books nothing twice.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the longest window in ms · and for each grant
--       its id · the id at which it counts if that place is free · its entry · the units it was
--       settled to, or - · the settlement's trace up to its charges
-- reply [status, now in ms, epoch, newest entry, server's clock in ms]: done · lost (restore first) ·
--       quiet (its name follows)

local at, span = 5, tonumber(ARGV[4])
if lost() then return answer('lost') end
if quiet ~= '' then return refuse('quiet') end
begin()
while ARGV[at] do
  local granted, place, entry, to, trace = unpack(ARGV, at, at + 4)
  local id = put_back(granted, place, entry)
  local text = id and to ~= '-' and entry_of(id)
  if text and state_of(id) ~= to then settle(trace, id, granted, text, to) end
  at = at + 5
end
save()
keep(span)
save()
return answer('done')

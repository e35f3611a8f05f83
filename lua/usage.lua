-- Reads what each limit's window holds now and what leaves it next, and looks whether a key was
-- evicted without the others. Writes nothing.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, the daemons, per
--       limit: units used, ms at which it has caught up or 0, ms at which units come back or 0,
--       units that come back]
--       status  done · more (too much has left the windows: acquire first) · or why the account
--               is not ready

if known_epoch ~= '' and epoch == known_epoch and emptied() then return answer('lost') end
if not stale_period and quiet == '' and not lost() and (not v or v.seen ~= last_ms or v.seen_seq ~= last_seq) then
  return answer('behind')
end
local unready = ready()
if unready then return refuse(unready) end

-- next_units sums what leaves sliding window i at the next instant at which anything does.
local function next_units(i)
  local next_ms, leaving, budget = 0, 0, BUDGET
  for id, text in behind(window_from(i)) do
    local ms = parts(id)
    if budget == 0 or (leaving > 0 and ms ~= next_ms) then break end
    next_ms, leaving, budget = ms, leaving + units_now(i, id, text), budget - 1
  end
  return next_ms, leaving
end

local reply = answer('done')
reply[7] = daemons()
for i = 1, count do
  local used, at, units = v[i].sum, 0, 0
  if used > 0 and lengths[i] == 0 then
    at, units = ends_ms[i], used
  elseif used > 0 then
    at, units = next_units(i)
    at = at + lengths[i]
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = used, catching_up(i), at, units
end
return reply

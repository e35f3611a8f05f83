-- Reads what each limit's window holds now and what leaves it next, and looks whether a key was
-- evicted without the others. Writes nothing.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, the daemons that wrote, per
--       limit: units used, ms at which it has caught up or 0, ms at which units come back or 0,
--       units that come back]
--       status  done · more (too much has left the windows: acquire first) · or why the account
--               is not ready

local T = tools()
if known_epoch ~= '' and epoch == known_epoch and T.emptied() then return T.answer('lost') end
if not stale_period and quiet == '' and not T.lost() and (not v or v[SEEN] ~= last_ms or v[SEEN_SEQ] ~= last_seq) then
  return T.answer('behind')
end
local unready = T.ready()
if unready then return T.refuse(unready) end

-- next_units sums what leaves sliding window i at the next instant at which anything does.
local function next_units(i)
  local w = 5 + 5 * i
  local ms, units, from = 0, 0, int(v[w + GONE]) .. '-' .. int(v[w + GONE_SEQ])
  for _ = 1, BUDGET / 64 do
    local entries = redis.call('XRANGE', log, '(' .. from, '+', 'COUNT', 64)
    for e = 1, #entries do
      from = entries[e][1]
      local at = tonumber(string.match(from, '^%d+'))
      if units > 0 and at ~= ms then return ms, units end
      ms, units = at, units + T.units_now(i, from, entries[e][2][2])
    end
    if #entries < 64 then break end
  end
  return ms, units
end

local reply = T.answer('done')
reply[6] = T.daemons()
for i = 1, count do
  local used, at, units = v[5 + 5 * i + SUM], 0, 0
  if used > 0 and T.length_of(i) == 0 then
    at, units = tonumber(ARGV[6 + 4 * i]), used
  elseif used > 0 then
    at, units = next_units(i)
    at = at + T.length_of(i)
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = used, T.catching_up(i), at, units
end
return reply

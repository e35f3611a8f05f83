-- Reads what each limit's window holds now and what leaves it next. Writes nothing.
--
-- KEYS  1 account · 2 log · 3 settled
-- ARGV  1… the head, as read_head reads it
-- reply [status, now in ms, epoch, newest entry, per limit: units used, ms at which it
--       has caught up or 0, ms at which units come back or 0, units that come back]
--       status  done · more (too much has left the windows: acquire first) · rest (as for
--               acquire) · or why the account is not_ready

local account, log, settled = KEYS[1], KEYS[2], KEYS[3]
local head = read_head()
local limits = head.limits
local a = load_account(account, head)
local unready = not_ready(a, head)
if unready then return answer(a, unready) end
if a.rest ~= '0' then return resting(a) end

-- next_units sums what leaves a sliding window at the next instant at which
-- anything does.
local function next_units(limit)
  local t, ms, units, from = limit.tally, nil, 0, entry_id(limit.tally.gone_ms, limit.tally.gone_seq)
  local rest = { sum = t.sum, credit = t.credit }
  for _ = 1, BUDGET / READ do
    local entries = redis.call('XRANGE', log, '(' .. from, '+', 'COUNT', READ)
    for _, entry in ipairs(entries) do
      local at = id_parts(entry[1])
      if units > 0 and at ~= ms then return ms, units end
      ms, from = at, entry[1]
      units = units + leave(rest, price(account, settled, limit, entry))
    end
    if #entries < READ then break end
  end
  return ms or 0, units
end

local reply = answer(a, 'done')
for _, limit in ipairs(limits) do
  local _, more = advance(account, log, settled, limit, BUDGET)
  if more then return answer(a, 'more') end
  local t = limit.tally
  local used, at, units = t.sum - t.credit, 0, 0
  if used > 0 and limit.length == 0 then
    at, units = limit.ends, used
  elseif used > 0 then
    at, units = next_units(limit)
    at = at + limit.length
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = used, catching_up(a, limit), at, units
end
return reply

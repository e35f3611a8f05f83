-- Books units that were spent elsewhere against one limit, or gives back units
-- that were counted but not spent, and leaves a trace in the log. Asked again
-- after a lost reply, a call books nothing twice.
--
-- KEYS  1 account · 2 log · 3 settled · 4 keys
-- ARGV  1… the head, as read_head reads it · then the limit's number · the units,
--       negative to give back · by · region · the reason, empty if there is none
-- reply [status, now in ms, epoch, newest entry, units booked or given back,
--       units used, the trace's entry id]
--       status  done · overflow (the limit would hold more than 2^53-1) · more
--               (acquire first, too much has left the windows) · stray (as for acquire)
--               · or why the account is not_ready

local account, log, settled, keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local head, at = read_head()
local limits = head.limits
local number, units, by, region, reason = unpack(ARGV, at, at + 4)
number, units = tonumber(number), tonumber(units)
local a = load_account(account, head)
local unready = not_ready(a, head)
if unready then return answer(a, unready) end
if stray(a, head) then return answer(a, 'stray') end
for _, limit in ipairs(limits) do
  local taken, more = advance(account, log, settled, limit, BUDGET)
  a.stale = a.stale + taken
  if more then return answer(a, 'more') end
end

local t = limits[number].tally
local function done(booked, id)
  local reply = answer(a, 'done')
  reply[5], reply[6], reply[7] = booked, t.sum - t.credit, id
  return reply
end

local name, booked = string.match(a.call or '', '^(%S+) =(%d+)@')
if name == head.call then return done(tonumber(booked), string.match(a.call, '@(.*)$')) end
if t.sum + units > 9007199254740991 then return answer(a, 'overflow') end

local charges = {}
for i = 1, #limits do charges[i] = 0 end
if units > 0 then
  charges[number], booked = units, units
else
  booked = math.min(-units, t.sum - t.credit)
  t.credit = t.credit + booked
end
local note = 'adjust ' .. limits[number].name .. ' ' .. int(units) .. ' ' .. (units < 0 and booked > 0 and '-' or '') .. int(booked)
  .. ' ' .. reason
local id = append(a, log, limits,
  { operation = '', count = 0, by = by, region = region, key = '', note = note }, charges)
refresh(a, limits)
save(account, a, limits, { 'c:' .. head.daemon, head.call .. ' =' .. int(booked) .. '@' .. id })
return done(booked, id)

-- Books units that were spent elsewhere against one limit, or gives back units
-- that were counted but not spent, and leaves a trace in the log. Asked again
-- after a lost reply, a call books nothing twice.
--
-- KEYS  1 account · 2 log · 3 settled · 4 keys
-- ARGV  1 the daemon's name · 2 the call's name, unique per daemon · 3… the limits,
--       as read_limits reads them · then the limit's number · the units, negative
--       to give back · by · region · the trace's note
-- reply [status, now in ms, units booked or given back, units used]
--       status  done · overflow · more, behind, period: as for acquire

local account, log, settled, keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local daemon, call = ARGV[1], ARGV[2]
local limits, at = read_limits(3)
local number, units, by, region, note = unpack(ARGV, at, at + 4)
number, units = tonumber(number), tonumber(units)
local a = load_account(account, limits, daemon)
if stale_period(a, limits) then return { 'period', a.now } end
if behind(a, limits) then return { 'behind', a.now } end
for _, limit in ipairs(limits) do
  local taken, more = advance(account, log, settled, limit, BUDGET)
  a.stale = a.stale + taken
  if more then return { 'more', a.now } end
end

local t = limits[number].tally
local name, booked = string.match(a.call or '', '^(%S+) =(%d+)$')
if name == call then return { 'done', a.now, tonumber(booked), t.sum - t.credit } end
if t.sum + units > 9007199254740991 then return { 'overflow', a.now } end

local charges = {}
for i = 1, #limits do charges[i] = 0 end
if units > 0 then
  charges[number], booked = units, units
else
  booked = math.min(-units, t.sum - t.credit)
  t.credit = t.credit + booked
end
append(a, log, limits, { operation = '', count = 0, by = by, region = region, key = '', note = note }, charges)
refresh(a, limits)
save(account, a, limits, { 'c:' .. daemon, call .. ' =' .. int(booked) })
return { 'done', a.now, booked, t.sum - t.credit }

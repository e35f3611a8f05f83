-- Reads the entries of the log, and what they count; lua.go puts it in front of the scripts that
-- deal with an account.

local MAX = 9007199254740991
local READ, FEW = 64, 4 -- entries read at a time, and first of all: mostly one or two have left
-- A host numbers what it grants in an outage from HOST_SEQ to LEDGER_SEQ.
local HOST_SEQ, LEDGER_SEQ = 2 ^ 16, 2 ^ 48

-- int formats a whole number up to 2^53; tostring would round it.
local function int(n)
  return string.format('%.0f', n)
end

local function id_of(ms, seq)
  return string.format('%.0f-%.0f', ms, seq)
end

local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- before tells whether the first entry is older than the second one.
local function before(ms, seq, other_ms, other_seq)
  return ms < other_ms or (ms == other_ms and seq < other_seq)
end

local function id_before(a, b)
  local ms, seq = parts(a)
  return before(ms, seq, parts(b))
end

-- answer begins a reply: the status, now, the log's epoch and newest entry, the server's clock, and
-- the limits that are closed, packed one after the other.
local function answer(status)
  local packed = ''
  for limit, c in pairs(closed) do
    if c.until_ms > now then packed = packed .. packed_closed(limit) end
  end
  return { status, now, epoch, id_of(last_ms, last_seq), clock_ms, packed }
end

-- amount finds name in ",name=units,name=units".
local function amount(list, name)
  local _, at = string.find(list, ',' .. name .. '=', 1, true)
  if at then return tonumber(string.match(list, '^%d+', at + 1)) end
end

local function greatest(list)
  local most = 0
  for units in string.gmatch(list, '=(%d+)') do most = math.max(most, tonumber(units)) end
  return most
end

-- recorded returns the charges that an entry was written with.
local function recorded(text)
  return string.match(text, '^[gu](,%S*)') or ''
end

-- after applies a settlement to a charge: the greatest is replaced, a smaller one shrinks to it.
local function after(units, most, to)
  if units >= most then return to end
  return math.min(units, to)
end

-- entry_of returns the entry of an id, if the log has it, and the id under which it was granted.
local function entry_of(id)
  local found = redis.call('XRANGE', log, id, id)[1]
  if found then return found[2][2], found[2][4] or id end
end

-- behind iterates over the entries behind one, up to another: id, entry, and the id under which it
-- was granted.
local function behind(from, to)
  local page, n, size = nil, 0, FEW
  return function()
    if not page or n == #page then
      if page and n < size then return nil end
      if page then size = READ end
      page, n = redis.call('XRANGE', log, '(' .. from, to or '+', 'COUNT', size), 0
    end
    n = n + 1
    local found = page[n]
    if not found then return nil end
    from = found[1]
    return from, found[2][2], found[2][4] or from
  end
end

local changed = false   -- whether the view is another one than the account's
local nothing_corrected -- whether the settled hash is known to be empty

-- state_of returns what an entry was settled to, what was given back of it per limit, each - if
-- nothing was, and the correction that made it so.
local function state_of(id)
  if nothing_corrected == nil then nothing_corrected = redis.call('HLEN', settled) == 0 end
  local kept = not nothing_corrected and redis.call('HGET', settled, id)
  if not kept then return '-', '-', '0-0' end
  local by, to, given = string.match(kept, '^(%S+) (%S+) (%S+)$')
  return to, given, by
end

-- counts_calls tells whether a limit of some prices counts the calls of a job, or of "@" and a uid.
local function counts_calls(list, by)
  local sign, jobs = string.match(list, ';([+-])(%S*)$')
  if not sign then return true end
  local named = string.find(jobs, ',' .. by .. ',', 1, true) ~= nil
  return named == (sign == '+')
end

-- units returns what an entry counts in limit i, having been settled to to, and given given back:
-- its charge there, else what its operation costs its job there by the view's prices.
local prices = {}
local function units(i, text, to, given)
  local list = recorded(text)
  local charge = amount(list, names[i])
  if not charge then
    local operation, number, by = string.match(text, '^g%S* (%S+) (%d+) (%S+)')
    if not operation then return 0 end
    prices[i] = prices[i] or redis.call('HGET', view, 'p' .. i) or ''
    if not counts_calls(prices[i], by) then return 0 end
    charge = math.min((amount(prices[i], operation) or 0) * tonumber(number), MAX)
  end
  if to ~= '-' then charge = after(charge, greatest(list), tonumber(to)) end
  if given == '-' then return charge end
  return math.max(0, charge - (amount(given, names[i]) or 0))
end

local function units_now(i, id, text)
  local to, given = state_of(id)
  return units(i, text, to, given)
end

-- in_window tells whether an entry is in limit i's window.
local function in_window(i, id)
  local ms, seq = parts(id)
  return v[i].due > 0 and before(v[i].gone, v[i].gone_seq, ms, seq)
end

-- counted tells whether an entry is in the window of any limit.
local function counted(id)
  for i = 1, count do
    if in_window(i, id) then return true end
  end
  return false
end

-- window_from returns the newest entry that has left limit i's window.
local function window_from(i)
  return id_of(v[i].gone, v[i].gone_seq)
end

-- expire takes out of limit i's window what has left it, at most BUDGET entries. It returns
-- whether there may be more, or nil if entries are trimmed that it would need.
local function expire(i)
  local taken = 0
  if v[i].due == 0 or v[i].due > cutoffs[i] then return false end
  changed = true
  if v.seen == last_ms and v.seen_seq == last_seq and last_ms <= cutoffs[i] then -- everything has
    if v[i].sum > 0 then v[i].left = last_ms end
    v[i].gone, v[i].gone_seq, v[i].due, v[i].sum, v.stale = last_ms, last_seq, 0, 0, STALE_MAX
    return false
  end
  if before(v[i].gone, v[i].gone_seq, trimmed_ms, trimmed_seq) then return nil end
  v[i].due = 0
  for id, text in behind(window_from(i)) do
    local ms, seq = parts(id)
    if ms > cutoffs[i] or taken == BUDGET then
      v[i].due = ms
      break
    end
    local left = units_now(i, id, text)
    if left > 0 then v[i].left = ms end
    v[i].sum = v[i].sum - left
    v[i].gone, v[i].gone_seq, taken = ms, seq, taken + 1
  end
  v.stale = v.stale + taken
  return v[i].due > 0 and v[i].due <= cutoffs[i]
end

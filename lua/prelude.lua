-- Shared by every script; lua.go puts it in front of each.
--
-- One credential has four keys with one hash tag:
--   account  hash    state: "last trimmed lost fresh span stale", see load_account
--                    conf: names of the limits that count entries as they are written
--                    absent: names of others that did, and are not configured now
--                    l:<limit>: its tally · p:<limit>: its prices
--                    c:<daemon>: its last granting call and that call's entry ids
--   log      stream  an entry per grant or correction, its id on the server's clock:
--                    o operation, n count, b by, r region, u charges ("daily=100 search=1"),
--                    k request key and t note where there are any
--   settled  hash    entry id -> units really spent
--   keys     hash    request key -> entry id
--
-- A tally is "sum credit gone seen basis due": units of the entries behind gone;
-- units given back, to the oldest first; the newest entry that left the window;
-- the newest entry counted, or "-" for the newest there is; how entries without
-- a recorded charge are priced; and the ms before which nothing leaves, 0 if unknown.

local STALE_MAX = 128  -- entries that left before the log is trimmed
local READ = 64        -- entries read at a time
local BUDGET = 512     -- entries that one call may take out of windows, or walk

-- int formats a whole number up to 2^53; tostring would round it.
local function int(n)
  return string.format('%.0f', n)
end

local function id_parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- before tells whether entry id a is older than entry id b.
local function before(a, b)
  local ams, aseq = id_parts(a)
  local bms, bseq = id_parts(b)
  return ams < bms or (ams == bms and aseq < bseq)
end

-- clock returns the server's time in ms.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- read_limits reads the limits from ARGV[at] on: their number, then for each its
-- name, units, reserve, window length (ms, 0 for a calendar window), the period's
-- start and end (ms, 0 for a sliding window), and basis. It returns them and the
-- index behind them.
local function read_limits(at)
  local limits = {}
  local n = tonumber(ARGV[at])
  at = at + 1
  for i = 1, n do
    limits[i] = {
      name = ARGV[at], units = tonumber(ARGV[at + 1]), reserve = tonumber(ARGV[at + 2]),
      length = tonumber(ARGV[at + 3]), starts = tonumber(ARGV[at + 4]), ends = tonumber(ARGV[at + 5]),
      basis = ARGV[at + 6],
    }
    at = at + 7
  end
  return limits, at
end

local function conf_of(limits)
  local names = {}
  for i, limit in ipairs(limits) do names[i] = limit.name end
  return table.concat(names, ' ')
end

local function parse_tally(text)
  local sum, credit, gone, seen, basis, due = string.match(text, '^(%d+) (%d+) (%S+) (%S+) (%S+) (%d+)$')
  return { sum = tonumber(sum), credit = tonumber(credit), gone = gone, seen = seen, basis = basis, due = tonumber(due) }
end

local function format_tally(t)
  return int(t.sum) .. ' ' .. int(t.credit) .. ' ' .. t.gone .. ' ' .. t.seen .. ' ' .. t.basis .. ' ' .. int(t.due)
end

-- load_account reads the account, and the limits' tallies into limit.tally. Of
-- the account: last and trimmed are the newest entry ever written and trimmed off;
-- up to lost ms entries are missing that a longer window would count; at fresh ms
-- the keys' expiry was set for windows of span ms; stale entries have left since
-- the log was trimmed; now is the server's time, never before the newest entry;
-- call is what the given daemon's last granting call left, if any.
local function load_account(key, limits, daemon)
  local fields = { 'state', 'conf', 'absent', 'c:' .. (daemon or '') }
  for i, limit in ipairs(limits) do fields[4 + i] = 'l:' .. limit.name end
  local got = redis.call('HMGET', key, unpack(fields))
  local last, trimmed, lost, fresh, span, stale =
    string.match(got[1] or '0-0 0-0 0 0 0 0', '^(%S+) (%S+) (%d+) (%d+) (%d+) (%d+)$')
  local a = {
    last = last, trimmed = trimmed, lost = tonumber(lost), fresh = tonumber(fresh),
    span = tonumber(span), stale = tonumber(stale), conf = got[2] or '', absent = got[3] or '', call = got[4],
  }
  a.now = math.max(clock(), (id_parts(last)))
  for i, limit in ipairs(limits) do
    limit.cutoff = limit.length > 0 and a.now - limit.length or limit.starts - 1
    if got[4 + i] then limit.tally = parse_tally(got[4 + i]) end
  end
  return a
end

-- save writes the account and the limits' tallies, and more fields if given.
local function save(key, a, limits, more)
  local fields = more or {}
  local n = #fields
  fields[n + 1], fields[n + 2] = 'state', table.concat(
    { a.last, a.trimmed, int(a.lost), int(a.fresh), int(a.span), int(a.stale) }, ' ')
  for i, limit in ipairs(limits) do
    fields[n + 2 * i + 1], fields[n + 2 * i + 2] = 'l:' .. limit.name, format_tally(limit.tally)
  end
  redis.call('HSET', key, unpack(fields))
end

-- stale_period tells whether a calendar window's period is not the one of now:
-- the caller's clock is on the other side of a boundary.
local function stale_period(a, limits)
  for _, limit in ipairs(limits) do
    if limit.length == 0 and (a.now < limit.starts or a.now >= limit.ends) then return true end
  end
  return false
end

-- behind tells whether a limit cannot be decided about before it was counted:
-- it is new, prices operations differently, missed entries, or its window now
-- reaches back behind entries that had left it.
local function behind(a, limits)
  for _, limit in ipairs(limits) do
    local t = limit.tally
    if not t or t.basis ~= limit.basis or t.seen ~= '-' or before(t.gone, a.trimmed) then return true end
    if (id_parts(t.gone)) > limit.cutoff and before(a.trimmed, t.gone) then return true end
  end
  return false
end

local function field(entry, name)
  local f = entry[2]
  for i = 1, #f, 2 do
    if f[i] == name then return f[i + 1] end
  end
end

-- amount finds name in "name=units name=units".
local function amount(list, name)
  local text = ' ' .. list
  local _, last = string.find(text, ' ' .. name .. '=', 1, true)
  if last then return tonumber(string.match(text, '^%d+', last + 1)) end
end

local function greatest(charges)
  local most = 0
  for units in string.gmatch(charges, '=(%d+)') do most = math.max(most, tonumber(units)) end
  return most
end

-- price returns what an entry counts in a limit: the recorded charge, else what
-- its operation costs there by the limit's prices; after settling, what is left.
local function price(account, settled, limit, entry)
  local charges = field(entry, 'u') or ''
  local units = amount(charges, limit.name)
  if not units then
    local operation = field(entry, 'o') or ''
    if operation == '' then return 0 end
    limit.prices = limit.prices or redis.call('HGET', account, 'p:' .. limit.name) or ''
    units = math.min((amount(limit.prices, operation) or 0) * tonumber(field(entry, 'n')), 9007199254740991)
  end
  local spent = redis.call('HGET', settled, entry[1])
  if not spent then return units end
  spent = tonumber(spent)
  if units >= greatest(charges) then return spent end
  return math.min(units, spent)
end

-- leave takes units out of a tally and returns what that frees: what had been
-- given back before is not freed twice.
local function leave(t, units)
  local given = math.min(units, t.credit)
  t.credit = t.credit - given
  t.sum = t.sum - units
  return units - given
end

-- advance takes out of a limit's window what has left it, at most budget entries.
-- It returns the number taken, and whether there may be more.
local function advance(account, log, settled, limit, budget)
  local t, taken = limit.tally, 0
  if t.due > limit.cutoff then return 0, false end
  while taken < budget do
    local count = math.min(READ, budget - taken)
    local entries = redis.call('XRANGE', log, '(' .. t.gone, '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      local ms = id_parts(entry[1])
      if ms > limit.cutoff then
        t.due = ms
        return taken, false
      end
      leave(t, price(account, settled, limit, entry))
      t.gone, taken = entry[1], taken + 1
    end
    if #entries < count then
      t.due = 0
      return taken, false
    end
  end
  return taken, true
end

-- catching_up returns the ms at which the log reaches back as far as the limit's
-- window again, or 0 if it does now.
local function catching_up(a, limit)
  if a.lost <= limit.cutoff then return 0 end
  if limit.length == 0 then return limit.ends end
  return a.lost + limit.length
end

-- walk reads behind a limit's window, oldest entry first, until missing units
-- are free. It returns the ms at which they are, or nil and where it stopped:
-- the last entry read, the units still missing, the credit left.
local function walk(account, log, settled, limit, from, missing, credit, budget)
  local t = { sum = 0, credit = credit }
  while budget > 0 do
    local count = math.min(READ, budget)
    local entries = redis.call('XRANGE', log, '(' .. from, '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      from = entry[1]
      missing = missing - leave(t, price(account, settled, limit, entry))
      if missing <= 0 then return (id_parts(from)) + limit.length end
    end
    budget = budget - count
    if #entries < count then return (id_parts(from)) + limit.length end
  end
  return nil, from, missing, t.credit
end

-- trim drops from the log what no limit's window needs any more, with the
-- request keys and settlements that belong to it; at most BUDGET entries.
local function trim(a, limits, log, settled, keys)
  local floor = a.last
  for _, limit in ipairs(limits) do
    if before(limit.tally.gone, floor) then floor = limit.tally.gone end
  end
  local entries = redis.call('XRANGE', log, '(' .. a.trimmed, floor, 'COUNT', BUDGET)
  for _, entry in ipairs(entries) do
    local key = field(entry, 'k')
    if key and redis.call('HGET', keys, key) == entry[1] then redis.call('HDEL', keys, key) end
    redis.call('HDEL', settled, entry[1])
    a.trimmed = entry[1]
  end
  if #entries < BUDGET then a.stale = 0 end
  if #entries == 0 then return end
  a.lost = id_parts(a.trimmed)
  -- Whole nodes only: what is left of the first one costs nothing to keep.
  redis.call('XTRIM', log, 'MINID', '~', a.trimmed)
end

-- next_id returns the id of an entry written now.
local function next_id(a)
  local ms, seq = id_parts(a.last)
  if a.now > ms then return int(a.now) .. '-0' end
  return int(ms) .. '-' .. int(seq + 1)
end

-- refresh lets idle keys expire, but never before their newest entry has left
-- the longest window: the expiry is set an eighth of it ahead of need, so that
-- not every grant has to.
local function refresh(a, limits)
  local span = 0
  for _, limit in ipairs(limits) do
    span = math.max(span, limit.length > 0 and limit.length or limit.ends - limit.starts)
  end
  local ahead = math.floor(span / 8)
  if span <= a.span and a.fresh > 0 and a.now < a.fresh + ahead then return end
  a.fresh, a.span = a.now, span
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, int(span + 2 * ahead + 60000))
  end
end

-- put remembers a field of a hash that expires with the account's other keys.
local function put(a, key, name, value)
  redis.call('HSET', key, name, value)
  if redis.call('HLEN', key) == 1 then a.fresh = 0 end
end

-- counted tells whether an entry is in the window of any limit.
local function counted(limits, id)
  for _, limit in ipairs(limits) do
    if before(limit.tally.gone, id) then return true end
  end
  return false
end

-- append writes an entry, and counts its charges, a list as long as the limits,
-- in their tallies.
local function append(a, log, limits, entry, charges)
  local id, list = next_id(a), {}
  for i, limit in ipairs(limits) do
    if charges[i] > 0 then list[#list + 1] = limit.name .. '=' .. int(charges[i]) end
    limit.tally.sum = limit.tally.sum + charges[i]
    if limit.tally.due == 0 then limit.tally.due = id_parts(id) end
  end
  local fields = { 'o', entry.operation, 'n', entry.count, 'b', entry.by, 'r', entry.region, 'u', table.concat(list, ' ') }
  if entry.key ~= '' then fields[#fields + 1], fields[#fields + 2] = 'k', entry.key end
  if entry.note ~= '' then fields[#fields + 1], fields[#fields + 2] = 't', entry.note end
  redis.call('XADD', log, id, unpack(fields))
  a.last = id
  return id
end

-- Shared by every script; lua.go puts it in front of each.
--
-- One credential has four keys with one hash tag:
--   account  hash    last: the newest entry's id · state: see load_account
--                    epoch: drawn when the log was begun, so that its loss is noticed
--                    conf: names of the limits that count entries as they are written
--                    absent: names of others that did, and are not configured now
--                    s:<limit>, l:<limit>: its tally · p:<limit>: its prices
--                    c:<daemon>: its last granting call and that call's entry ids
--   log      stream  an entry per grant or correction, its id on the server's clock:
--                    o operation, n count, b by, r region, u charges ("daily=100 search=1"),
--                    k request key, t note, and a the id that an entry was granted
--                    under which was put back behind its place, where there are any
--   settled  hash    entry id -> units really spent
--   keys     hash    request key, or = and the id granted under -> entry id
--
-- A tally is a sum, and "credit gone_ms gone_seq seen due basis": units of the
-- entries behind gone; units given back, to the oldest first; the newest entry
-- that left the window; the newest entry counted, or "-" for the newest there is;
-- the ms before which nothing leaves, 0 if unknown; and how entries without a
-- recorded charge are priced. What seldom changes stands apart, so that a grant
-- writes little.

local STALE_MAX = 128  -- entries that left before the log is trimmed
local FIRST = 4        -- entries read first of all: mostly one or two have left
local FEW = 8          -- entries read first, where mostly few are needed
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

local function entry_id(ms, seq)
  return string.format('%.0f-%.0f', ms, seq)
end

-- before tells whether the entry of ms and seq is older than the other one.
local function before(ms, seq, other_ms, other_seq)
  return ms < other_ms or (ms == other_ms and seq < other_seq)
end

-- clock returns the server's time in ms.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- read_head reads what the scripts that deal with limits have in front: ARGV 1 the
-- daemon's name · 2 the call's name, unique per daemon · 3 the epoch of the log as
-- the daemon knows it, empty if it does not · 4 the id of the newest entry it knows
-- of · 5 the number of limits, then for each its name, units, reserve, window length
-- (ms, 0 for a calendar window), the period's start and end (ms, 0 for a sliding
-- window), and basis. It returns them as a table, and the index behind them.
local function read_head()
  local head, limits = { daemon = ARGV[1], call = ARGV[2], epoch = ARGV[3], newest = ARGV[4] }, {}
  local at = 6
  for i = 1, tonumber(ARGV[5]) do
    limits[i] = {
      name = ARGV[at], units = tonumber(ARGV[at + 1]), reserve = tonumber(ARGV[at + 2]),
      length = tonumber(ARGV[at + 3]), starts = tonumber(ARGV[at + 4]), ends = tonumber(ARGV[at + 5]),
      basis = ARGV[at + 6],
    }
    at = at + 7
  end
  head.limits = limits
  return head, at
end

local function conf_of(limits)
  if #limits == 1 then return limits[1].name end
  local names = {}
  for i, limit in ipairs(limits) do names[i] = limit.name end
  return table.concat(names, ' ')
end

local function parse_tally(sum, text)
  local credit, gone_ms, gone_seq, seen, due, basis = string.match(text, '^(%d+) (%d+) (%d+) (%S+) (%d+) (%S+)$')
  return {
    sum = tonumber(sum), credit = tonumber(credit), gone_ms = tonumber(gone_ms), gone_seq = tonumber(gone_seq),
    seen = seen, due = tonumber(due), basis = basis,
  }
end

local function format_tally(t)
  return string.format('%.0f %.0f %.0f %s %.0f %s', t.credit, t.gone_ms, t.gone_seq, t.seen, t.due, t.basis)
end

-- load_account reads the account, and the limits' tallies into limit.tally. Of
-- the account: last, last_ms and last_seq are the newest entry ever written, trimmed the
-- newest one trimmed off; up to lost ms entries are missing that a longer window
-- would count; at fresh ms the keys' expiry was set for windows of span ms; stale
-- entries have left since the log was trimmed; while rest has a name, and is not 0,
-- nothing is granted; settlements are in the settled hash;
-- now is the server's time, never before the newest entry; call is what the
-- daemon's last granting call left.
local function load_account(key, head)
  local limits = head.limits
  local fields = { 'last', 'state', 'conf', 'epoch', 'c:' .. head.daemon }
  for i, limit in ipairs(limits) do
    fields[4 + 2 * i], fields[5 + 2 * i] = 's:' .. limit.name, 'l:' .. limit.name
  end
  local got = redis.call('HMGET', key, unpack(fields))
  local trimmed, lost, fresh, span, stale, rest, settlements =
    string.match(got[2] or '0-0 0 0 0 0 0 0', '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+)$')
  local a = {
    trimmed = trimmed, lost = tonumber(lost), fresh = tonumber(fresh), span = tonumber(span), stale = tonumber(stale),
    rest = rest, settlements = tonumber(settlements), conf = got[3] or '', epoch = got[4] or '', call = got[5], last = got[1] or '0-0',
  }
  a.last_ms, a.last_seq = id_parts(a.last)
  a.now = math.max(clock(), a.last_ms)
  for i, limit in ipairs(limits) do
    limit.cutoff = limit.length > 0 and a.now - limit.length or limit.starts - 1
    if got[5 + 2 * i] then limit.tally = parse_tally(got[4 + 2 * i], got[5 + 2 * i]) end
  end
  return a
end

-- answer begins a reply: the status, now, the log's epoch and its newest entry.
local function answer(a, status)
  return { status, a.now, a.epoch, a.last }
end

-- resting answers that nothing is known for certain until wake, with the rest's name.
local function resting(a)
  local reply = answer(a, 'rest')
  reply[5] = a.rest
  return reply
end

-- save_sums writes what every entry changes, and more fields if given.
local function save_sums(key, a, limits, more)
  local n = #more
  more[n + 1], more[n + 2] = 'last', a.last
  for i, limit in ipairs(limits) do
    more[n + 1 + 2 * i], more[n + 2 + 2 * i] = 's:' .. limit.name, int(limit.tally.sum)
  end
  redis.call('HSET', key, unpack(more))
end

-- save writes the whole account, and more fields if given.
local function save(key, a, limits, more)
  local fields = more or {}
  local n = #fields
  fields[n + 1], fields[n + 2] = 'state', string.format('%s %.0f %.0f %.0f %.0f %s %.0f',
    a.trimmed, a.lost, a.fresh, a.span, a.stale, a.rest, a.settlements)
  for i, limit in ipairs(limits) do
    fields[n + 1 + 2 * i], fields[n + 2 + 2 * i] = 'l:' .. limit.name, format_tally(limit.tally)
  end
  save_sums(key, a, limits, fields)
end

-- stale_period tells whether a calendar window's period is not the one of now:
-- the caller's clock is on the other side of a boundary.
local function stale_period(a, limits)
  for _, limit in ipairs(limits) do
    if limit.length == 0 and (a.now < limit.starts or a.now >= limit.ends) then return true end
  end
  return false
end

-- emptied tells whether one of the account's keys was evicted without the others.
local function emptied(a)
  if a.last ~= a.trimmed and redis.call('XLEN', KEYS[2]) == 0 then return true end
  return redis.call('HLEN', KEYS[3]) < a.settlements
end

local function not_trimmed(a, ms, seq)
  local trimmed_ms, trimmed_seq = id_parts(a.trimmed)
  return before(trimmed_ms, trimmed_seq, ms, seq)
end

-- begin draws the epoch of a log that has none, and reports whether it did. When it
-- was begun is part of it: what is known of a log before its first entry. An account
-- that was evicted alone goes on behind what is left of the others.
local function begin(a, head)
  if a.epoch ~= '' then return false end
  local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
  if newest then
    local ms, seq = id_parts(newest[1])
    if before(a.last_ms, a.last_seq, ms, seq) then a.last, a.last_ms, a.last_seq = newest[1], ms, seq end
    a.now = math.max(a.now, ms)
  end
  a.settlements = redis.call('HLEN', KEYS[3])
  a.epoch = head.call .. '@' .. int(a.now)
  return true
end

-- lost tells whether entries are missing that the daemon knows of and a window
-- still counts: the log was flushed, evicted, or is an older copy. A log whose
-- keys expired while nobody used it lacks nothing.
local function lost(a, head)
  if a.epoch ~= '' and emptied(a) then return true end
  if head.epoch == '' or (a.epoch == head.epoch and a.last == head.newest) then return false end
  local ms, seq = id_parts(head.newest)
  if a.epoch == head.epoch then
    if before(a.last_ms, a.last_seq, ms, seq) then return true end
    -- Others may have written since to a copy that lacks it: later is not longer.
    return not_trimmed(a, ms, seq) and #redis.call('XRANGE', KEYS[2], head.newest, head.newest) == 0
  end
  -- Another log, or none: was the one that is known used in any window?
  ms = math.max(ms, tonumber(string.match(head.epoch, '@(%d+)$') or '0'))
  for _, limit in ipairs(head.limits) do
    if ms > limit.cutoff then return true end
  end
  return false
end

-- reaches_back tells whether the log still has entries up to a tally's gone.
local function reaches_back(a, t)
  local ms, seq = id_parts(a.trimmed)
  return before(ms, seq, t.gone_ms, t.gone_seq)
end

-- behind tells whether a limit cannot be decided about before it was counted:
-- it is new, prices operations differently, missed entries, or its window now
-- reaches back behind entries that had left it. While conf names just these
-- limits nothing was trimmed that one of them still counts.
local function behind(a, limits)
  if a.conf ~= conf_of(limits) then return true end
  for _, limit in ipairs(limits) do
    local t = limit.tally
    if not t or t.basis ~= limit.basis or t.seen ~= '-' then return true end
    if t.gone_ms > limit.cutoff and reaches_back(a, t) then return true end
  end
  return false
end

-- not_ready returns why nothing can be decided on an account as it is, or nil:
-- period (a calendar period is not the one of now) · lost (restore first) ·
-- behind (count first)
local function not_ready(a, head)
  if stale_period(a, head.limits) then return 'period' end
  if lost(a, head) then return 'lost' end
  if behind(a, head.limits) then return 'behind' end
end

-- stray tells whether a call arrives after a later one of the same daemon: it was
-- given up while it was on its way, and nobody waits for it any more.
local function stray(a, head)
  local boot, number = string.match(a.call or '', '^(%w+)%.(%w+)')
  local own_boot, own_number = string.match(head.call, '^(%w+)%.(%w+)$')
  return boot == own_boot and tonumber(own_number, 36) < tonumber(number, 36)
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

local nothing_settled -- whether the settled hash is known to be empty

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
  if nothing_settled == nil then nothing_settled = redis.call('HLEN', settled) == 0 end
  local spent = not nothing_settled and redis.call('HGET', settled, entry[1])
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
  local t, taken, page = limit.tally, 0, FIRST
  if t.due > limit.cutoff then return 0, false end
  while taken < budget do
    local count = math.min(page, budget - taken)
    local entries = redis.call('XRANGE', log, '(' .. entry_id(t.gone_ms, t.gone_seq), '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      local ms, seq = id_parts(entry[1])
      if ms > limit.cutoff then
        t.due = ms
        return taken, false
      end
      leave(t, price(account, settled, limit, entry))
      t.gone_ms, t.gone_seq, taken = ms, seq, taken + 1
    end
    if #entries < count then
      t.due = 0
      return taken, false
    end
    page = READ
  end
  t.due = t.gone_ms
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
local walked = 0 -- entries that this call has read to tell callers when to return
local function walk(account, log, settled, limit, from, missing, credit)
  local t = { sum = 0, credit = credit }
  while walked < BUDGET do
    local count = math.min(walked == 0 and FEW or READ, BUDGET - walked)
    local entries = redis.call('XRANGE', log, '(' .. from, '+', 'COUNT', count)
    walked = walked + count
    for _, entry in ipairs(entries) do
      from = entry[1]
      missing = missing - leave(t, price(account, settled, limit, entry))
      if missing <= 0 then return (id_parts(from)) + limit.length end
    end
    if #entries < count then return (id_parts(from)) + limit.length end
  end
  return nil, from, missing, t.credit
end

-- trim drops from the log what no limit's window needs any more, with the
-- request keys and settlements that belong to it; at most BUDGET entries.
local function trim(a, limits, log, settled, keys)
  local ms, seq = a.last_ms, a.last_seq
  for _, limit in ipairs(limits) do
    local t = limit.tally
    if before(t.gone_ms, t.gone_seq, ms, seq) then ms, seq = t.gone_ms, t.gone_seq end
  end
  local entries = redis.call('XRANGE', log, '(' .. a.trimmed, entry_id(ms, seq), 'COUNT', BUDGET)
  for _, entry in ipairs(entries) do
    local key, granted = field(entry, 'k'), field(entry, 'a')
    if key and redis.call('HGET', keys, key) == entry[1] then redis.call('HDEL', keys, key) end
    if granted then redis.call('HDEL', keys, '=' .. granted) end
    a.settlements = a.settlements - redis.call('HDEL', settled, entry[1])
    a.trimmed = entry[1]
  end
  if #entries < BUDGET then a.stale = 0 end
  if #entries == 0 then return end
  a.lost = id_parts(a.trimmed)
  -- Whole nodes only: what is left of the first one costs nothing to keep.
  redis.call('XTRIM', log, 'MINID', '~', a.trimmed)
end

-- refresh lets idle keys expire, but never before their newest entry has left
-- the longest window: the expiry is set an eighth of it ahead of need, so that
-- not every grant has to. It returns whether it did so.
local function refresh(a, limits)
  local span = 0
  for _, limit in ipairs(limits) do
    span = math.max(span, limit.length > 0 and limit.length or limit.ends - limit.starts)
  end
  local ahead = math.floor(span / 8)
  if span <= a.span and a.fresh > 0 and a.now < a.fresh + ahead then return false end
  a.fresh, a.span = a.now, span
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, int(a.now - clock() + span + 2 * ahead + 60000))
  end
  return true
end

-- put remembers a field of a hash that expires with the account's other keys.
local function put(a, key, name, value)
  local new = redis.call('HSET', key, name, value)
  if key == KEYS[3] then a.settlements = a.settlements + new end
  if redis.call('HLEN', key) == 1 then a.fresh = 0 end
  nothing_settled = nil
end

-- counted tells whether an entry is in the window of any limit.
local function counted(limits, id)
  local ms, seq = id_parts(id)
  for _, limit in ipairs(limits) do
    if before(limit.tally.gone_ms, limit.tally.gone_seq, ms, seq) then return true end
  end
  return false
end

-- advance_id makes the id of an entry that is written now the newest one: the time,
-- and a number above the last one's within it. A host numbers what it grants in an
-- outage from HOST_SEQ to LEDGER_SEQ; behind such an id the numbers go on above, so
-- that the host's next one is never taken for an entry of the ledger's.
local HOST_SEQ, LEDGER_SEQ = 2 ^ 16, 2 ^ 48
local function advance_id(a)
  if a.now > a.last_ms then
    a.last_ms, a.last_seq = a.now, 0
  elseif a.last_seq >= HOST_SEQ and a.last_seq < LEDGER_SEQ then
    a.last_seq = LEDGER_SEQ
  else
    a.last_seq = a.last_seq + 1
  end
  a.last = entry_id(a.last_ms, a.last_seq)
end

-- append writes an entry, its id the time and one more than the last one's
-- number within it, and counts its charges, a list as long as the limits. It
-- returns the id, and whether a tally changed in more than its sum.
local function append(a, log, limits, entry, charges)
  advance_id(a)
  local id, list, more = a.last, {}, false
  for i, limit in ipairs(limits) do
    local t, units = limit.tally, charges[i]
    if units > 0 then list[#list + 1] = limit.name .. '=' .. int(units) end
    t.sum = t.sum + units
    if t.due == 0 then t.due, a.fresh, more = a.last_ms, 0, true end
  end
  local fields = { 'o', entry.operation, 'n', entry.count, 'b', entry.by, 'r', entry.region, 'u', table.concat(list, ' ') }
  if entry.key ~= '' then fields[#fields + 1], fields[#fields + 2] = 'k', entry.key end
  if entry.note ~= '' then fields[#fields + 1], fields[#fields + 2] = 't', entry.note end
  redis.call('XADD', log, id, unpack(fields))
  return id, more
end

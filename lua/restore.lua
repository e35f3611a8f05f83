-- Puts entries back that a daemon knows of and the log does not have: after it was
-- flushed, evicted or replaced by an older copy, and after an outage in which the
-- daemon granted on its own. An entry whose place the log has passed is appended
-- with the time of now, and so counts longer than it had to, never shorter. Running
-- it again puts nothing back twice.
--
-- KEYS  1 account · 2 log · 3 settled · 4 keys
-- ARGV  1… the head, as read_head reads it · then 1 if the log is taken for what it is,
--       0 if it must be the one that the daemon knows · the newest ms at which the
--       ledger granted any of them: its clock was there, even if it is set back since
--       · the ms for which nothing is granted, so that other daemons can put theirs
--       back too; they end the name of the rest · the number of entries, and for each:
--       its id, operation, count, by, region, charges ("daily=100 search=1"), request
--       key, note, and units it was settled to or empty
-- reply [status, now in ms, epoch, newest entry, number put back]: done · period (a
--       calendar period is not the one of now) · lost (the log is not the one known)

local account, log, settled, keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local head, at = read_head()
local limits = head.limits
local a = load_account(account, head)
local whichever, newest_ms, rest, number = ARGV[at] == '1', tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
at = at + 4
if stale_period(a, limits) then return answer(a, 'period') end
if not whichever and head.epoch ~= '' and lost(a, head) then return answer(a, 'lost') end

-- A log that lacks something is another one from now on: else a daemon whose newest
-- known entry others put back would not notice that it lost its own.
if emptied(a) or (a.epoch == head.epoch and lost(a, head)) then a.epoch = '' end
local begun = begin(a, head)
a.now = math.max(a.now, newest_ms)
if redis.call('XLEN', log) == 0 then -- every entry may have its own place again
  a.last, a.last_ms, a.last_seq = a.trimmed, id_parts(a.trimmed)
end
a.settlements = redis.call('HLEN', settled)

local function in_window(ms)
  for _, limit in ipairs(limits) do
    if ms > limit.cutoff then return true end
  end
  return false
end

-- holder returns the entry in a window that a request key stands for.
local function holder(key)
  local id = key ~= '' and redis.call('HGET', keys, key)
  return id and in_window((id_parts(id))) and id or nil
end

-- granted_as returns the entry of an id if it is of that operation and count.
local function granted_as(id, operation, count)
  local entry = redis.call('XRANGE', log, id, id)[1]
  return entry and field(entry, 'o') == operation and field(entry, 'n') == count and entry or nil
end

-- known returns the id under which the log has an entry already. That another one
-- has its id, or its request key, does not make it known: ids are drawn again after
-- a loss, and keys used again after their window.
local function known(id, operation, count, by, key)
  local placed = redis.call('HGET', keys, '=' .. id)
  if placed then return placed end
  local held = holder(key)
  if held and granted_as(held, operation, count) then
    if held ~= id then put(a, keys, '=' .. id, held) end
    return held
  end
  local entry = granted_as(id, operation, count)
  if entry and field(entry, 'b') == by and (field(entry, 'k') or key) == key then return id end
end

-- place makes an id the newest one if it fits there, else the id of now, and
-- returns which.
local function place(id)
  local ms, seq = id_parts(id)
  if ms <= a.now and before(a.last_ms, a.last_seq, ms, seq) then
    a.last_ms, a.last_seq, a.last = ms, seq, id
  else
    advance_id(a)
  end
  return a.last
end

local put_back = 0
for _ = 1, number do
  local id, operation, count, by, region, charges, key, note, spent = unpack(ARGV, at, at + 8)
  at = at + 9
  local there = in_window((id_parts(id))) and known(id, operation, count, by, key)
  if there and spent ~= '' and not redis.call('HGET', settled, there) then
    put(a, settled, there, spent)
    put_back = put_back + 1
  elseif there == nil then
    local placed = place(id)
    local fields = { 'o', operation, 'n', count, 'b', by, 'r', region, 'u', charges }
    if placed ~= id then
      fields[#fields + 1], fields[#fields + 2] = 'a', id
      put(a, keys, '=' .. id, placed)
    end
    if key ~= '' and not holder(key) then
      fields[#fields + 1], fields[#fields + 2] = 'k', key
      put(a, keys, key, placed)
    end
    if note ~= '' then fields[#fields + 1], fields[#fields + 2] = 't', note end
    redis.call('XADD', log, placed, unpack(fields))
    if spent ~= '' then put(a, settled, placed, spent) end
    put_back = put_back + 1
  end
end

local more = { 'epoch', a.epoch }
if begun or put_back > 0 then
  -- The limits count the log anew.
  local absent = redis.call('HGET', account, 'absent') or ''
  for name in string.gmatch(a.conf .. ' ' .. absent, '%S+') do
    local kept = redis.call('HGET', account, 'l:' .. name)
    if kept then
      local t = parse_tally('0', kept)
      t.basis = '-'
      redis.call('HSET', account, 's:' .. name, '0', 'l:' .. name, format_tally(t))
    end
  end
  more = { 'epoch', a.epoch, 'conf', '', 'absent', '' }
end
if rest > 0 then a.rest = head.call .. '/' .. int(rest) end
save(account, a, {}, more)
a.fresh = 0
refresh(a, limits)
save(account, a, {})
local reply = answer(a, 'done')
reply[5] = put_back
return reply

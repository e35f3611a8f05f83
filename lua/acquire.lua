-- Decides requests of one credential, one after the other, and debits what it
-- grants. A refusal writes nothing, except that what has left a window is taken
-- out of its tally.
--
-- KEYS  1 account · 2 log · 3 settled · 4 keys
-- ARGV  1… the head, as read_head reads it; a call that is asked again under its name
--       debits nothing twice · then the number of requests, and for each: flags (1 may
--       use the reserve, 2 peek), operation, count, by, region, request key, and its
--       charge in units in each limit, 0 where it is not counted
-- reply [status, now in ms, epoch, newest entry, per decided request: kind, a, b, units
--       used of each limit…]
--       status  done · more (call again for those not decided yet) · rest (nothing is
--               granted until wake; its name follows) · stray (nobody waits for this
--               call any more) · or why the account is not_ready
--       kind    granted (a entry id; empty for a peek) · replayed (a entry id)
--               conflict (a operation, b count that were granted) · denied (a the
--               limit's number, b the ms at which the request fits; 0: run when)

local account, log, settled, keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local head, at = read_head()
local limits = head.limits

local a = load_account(account, head)
local unready = not_ready(a, head)
if unready then return answer(a, unready) end
if stray(a, head) then return answer(a, 'stray') end
if a.rest ~= '0' then return resting(a) end

local changed, more = false, false
for _, limit in ipairs(limits) do
  local taken, rest = advance(account, log, settled, limit, BUDGET)
  if taken > 0 then changed = true end
  a.stale = a.stale + taken
  more = more or rest
end

local granted_before = {}
if a.call then
  local name, ids = string.match(a.call, '^(%S+)(.*)$')
  if name == head.call then
    for id in string.gmatch(ids, '%S+') do granted_before[#granted_before + 1] = id end
  end
end

-- granted_entry finds the grant that a request key stands for.
local function granted_entry(key)
  local id = key ~= '' and redis.call('HGET', keys, key)
  if not id or not counted(limits, id) then return nil end
  return redis.call('XRANGE', log, id, id)[1]
end

-- decide returns the limit that refuses the longest and the ms at which the
-- request fits, or nil if it fits now.
local function decide(charges, use_reserve)
  local worst, latest = nil, 0
  for i, limit in ipairs(limits) do
    if charges[i] > 0 then
      local t = limit.tally
      local until_ms = catching_up(a, limit)
      local missing = t.sum - t.credit + charges[i] - (use_reserve and limit.units or limit.units - limit.reserve)
      if missing > 0 then
        local fits = limit.length == 0 and limit.ends
          or walk(account, log, settled, limit, entry_id(t.gone_ms, t.gone_seq), missing, t.credit)
        if not fits then return i, 0 end
        until_ms = math.max(until_ms, fits, a.now + 1)
      end
      if until_ms > latest then worst, latest = i, until_ms end
    end
  end
  return worst, latest
end

local reply = answer(a, 'done')
local function decided(kind, x, y)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = kind, x, y
  for i, limit in ipairs(limits) do reply[n + 3 + i] = limit.tally.sum - limit.tally.credit end
end

local ids, granted = {}, false
local asks = tonumber(ARGV[at])
at = at + 1
for n = 1, asks do
  local flags, operation, count, by, region, key = unpack(ARGV, at, at + 5)
  flags = tonumber(flags)
  local use_reserve, peek = flags % 2 == 1, flags >= 2
  local charges = {}
  for i = 1, #limits do charges[i] = tonumber(ARGV[at + 5 + i]) end
  at = at + 6 + #limits

  local done = granted_before[n]
  local entry = not peek and granted_entry(key)
  if done and done ~= '-' then
    ids[n] = done
    decided('granted', done, '')
  elseif entry then
    ids[n] = '-'
    if field(entry, 'o') == operation and field(entry, 'n') == count then
      decided('replayed', entry[1], '')
    else
      decided('conflict', field(entry, 'o'), field(entry, 'n'))
    end
  else
    ids[n] = '-'
    local worst, fits = decide(charges, use_reserve)
    if worst and more then
      reply[1] = 'more'
      break
    elseif worst then
      decided('denied', worst, fits)
    elseif peek then
      decided('granted', '', '')
    else
      local id, first = append(a, log, limits,
        { operation = operation, count = count, by = by, region = region, key = key, note = '' }, charges)
      ids[n], changed = id, changed or first
      if key ~= '' then put(a, keys, key, ids[n]) end
      granted = true
      decided('granted', ids[n], '')
    end
  end
end

if a.stale >= STALE_MAX then
  trim(a, limits, log, settled, keys)
  changed = true
end
local fields = {}
if granted then
  changed = refresh(a, limits) or changed
  fields = { 'c:' .. head.daemon, head.call .. ' ' .. table.concat(ids, ' ') }
  reply[4] = a.last
end
if changed then
  save(account, a, limits, fields)
elseif granted then
  save_sums(account, a, limits, fields)
end
return reply

-- Decides requests of one credential, one after the other, and debits what it grants. A refusal
-- writes nothing, except that what has left a window is taken out of its sum. Without a request
-- it does that alone.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it; packed behind the call's number, for each request and
--       limit the charge, 0 where it is not counted, and the units that it may fill; a call that is
--       asked again debits nothing twice · then for each request, at most 128, its entry, or - for a
--       peek, which comes alone
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, per decided request: kind, a,
--       b, units used of each limit…], or what grant.lua answers
--       status  done · more (call again for those not decided yet) · stray (nobody waits for this
--               call any more) · or why the account is not ready
--       kind    granted (a entry id; empty for a peek) · replayed (a entry id)
--               conflict (a entry that was granted) · denied (a the limit's number, b the ms at
--               which the request fits) · closed (likewise, of a limit that is closed)

local at = 4
local unready = ready()
local more = unready == 'more'
if unready and not more then return refuse(unready) end
if ARGV[at] and ARGV[at] ~= '-' and stray() then return answer('stray') end

-- charge_of returns what request r is charged in limit i, and the units that it may fill there.
local function charge_of(r, i)
  return struct.unpack('<dd', ARGV[3], 9 + 16 * (count * (r - at) + i))
end

-- The call was made before: what it granted then is granted, the one after the other.
local before_ms, before_seq, before_bits = 0, 0, ''
local done = done_before()
if done then
  before_ms, before_seq = struct.unpack('<dd', done)
  before_bits = string.sub(done, 17)
end

-- known decides a request whose key stands for a grant that counts.
local function known(entry)
  local key = string.match(entry, ' (%S+)$')
  local id = key and key ~= '-' and request(key)
  local granted = id and counted(id) and entry_of(id)
  if not granted then return nil end
  if string.match(granted, '^g%S* (%S+ %S+)') == string.match(entry, '^g%S* (%S+ %S+)') then return 'replayed', id end
  return 'conflict', granted
end

-- refused returns the limit that refuses a request for the longest, and the ms at which it fits
-- there; nothing if it fits now, and nil twice if that cannot be said now. A limit that refuses
-- nothing counts no more than it can.
local found = {}
local function refused(r)
  local limit, latest = 0, 0
  for i = 1, count do
    local charge, budget = charge_of(r, i)
    local refuses = now < refuses_ms[i]
    local at_ms = charge > 0 and refuses and catching_up(i) or 0
    if not refuses then budget = MAX end
    local missing = v[i].sum + charge - budget
    if charge > 0 and missing > 0 then
      -- Requests that share a call are often alike.
      local alike = i .. ' ' .. missing
      found[alike] = found[alike] or not more and fits(i, missing)
      if not found[alike] then return nil end
      at_ms = math.max(at_ms, found[alike], now + 1)
    end
    if refuses then at_ms = math.min(at_ms, refuses_ms[i]) end
    if at_ms > latest then limit, latest = i, at_ms end
  end
  return limit, latest
end

-- closed_to returns which limit is closed the longest of those that count a request, and until when.
-- One that only observes, and never refuses, opens for everybody.
local function closed_to(r)
  local limit, latest = 0, 0
  for i = 1, count do
    local c = closed[names[i]]
    if c and c.until_ms > now and c.until_ms > latest and refuses_ms[i] > 0 and charge_of(r, i) > 0 then limit, latest = i, c.until_ms end
  end
  return limit, latest
end

local function grant(r)
  local id = next_id()
  redis.call('XADD', log, id, 'e', ARGV[r])
  count_units(last_ms, last_seq, function(i) return (charge_of(r, i)) end)
  pass(last_ms, last_seq)
  local key = string.match(ARGV[r], ' (%S+)$')
  if key ~= '-' then name_entry(key, id) end
  found = {}
  return id
end

local empty = trimmed_ms == last_ms and trimmed_seq == last_seq
local reply, first, bits = answer('done'), nil, ''
for r = at, #ARGV do
  local peek, bit = ARGV[r] == '-', '0'
  local kind, a, b = nil, '', ''
  if string.sub(before_bits, r - at + 1, r - at + 1) == '1' then
    kind, a, before_seq = 'granted', id_of(before_ms, before_seq), before_seq + 1
  elseif not peek then
    kind, a = known(ARGV[r])
  end
  if not kind then
    local limit, latest = refused(r)
    if not limit and not more and not first then return answer('behind') end -- its index is gone
    if not limit or (done and limit == 0) then -- a call grants once
      reply[1] = 'more'
      break
    end
    local shut, opens_ms = closed_to(r)
    if shut > 0 then
      kind, a, b = 'closed', shut, math.max(latest, opens_ms)
    elseif limit > 0 then
      kind, a, b = 'denied', limit, latest
    elseif peek then
      kind, a = 'granted', ''
    else
      kind, a, bit = 'granted', grant(r), '1'
      first = first or struct.pack('<dd', last_ms, last_seq)
    end
  end
  bits = bits .. bit
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = kind, a or '', b
  for i = 1, count do reply[n + 3 + i] = v[i].sum end
end
reply[4] = id_of(last_ms, last_seq)

if v.stale >= STALE_MAX then trim() end
if first then
  remember(first .. bits)
  if empty then keep(v.span) else keep_ahead() end
end
if first or changed then save() end
return reply

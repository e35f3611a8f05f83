-- Decides requests of one credential, one after the other, and debits what it grants. A refusal
-- writes nothing, except that what has left a window is taken out of its sum. Without a request
-- it does that alone.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it; packed behind the call's number, for each request and
--       limit the charge, 0 where it is not counted, and the units that it may fill, and behind
--       those, unless none takes less, for each request the calls of which it takes as many as fit,
--       or 0; a call that is asked again debits nothing twice · then for each request, at most 128, its entry, or - for a
--       peek, which comes alone
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, per decided request: kind, a,
--       b, units used of each limit…], or what grant.lua answers
--       status  done · more (call again for those not decided yet) · stray (nobody waits for this
--               call any more) · or why the account is not ready
--       kind    granted (a entry id; empty for a peek) · replayed (a entry id); of both b the calls,
--               of a request that takes less
--               conflict (a entry that was granted) · denied (a the limit's number, b the ms at
--               which the request fits) · closed (likewise, of a limit that is closed)

local at = 4
local unready = ready()
local more = unready == 'more'
if unready and not more then return refuse(unready) end
if ARGV[at] and ARGV[at] ~= '-' and stray() then return answer('stray') end

local asked, taken = {}, {} -- calls of the requests that take less: asked for, and taken
local less_at = 25 + 16 * count * (#ARGV - at + 1)
for r = at, #ARGV >= at and #ARGV[3] >= less_at and #ARGV or 0 do
  local calls = struct.unpack('<d', ARGV[3], less_at + 8 * (r - at))
  if calls > 0 then asked[r], taken[r] = calls, calls end
end

-- charge_of returns what request r is charged in limit i, and the units that it may fill there.
local function charge_of(r, i)
  local charge, budget = struct.unpack('<dd', ARGV[3], 9 + 16 * (count * (r - at) + i))
  if asked[r] then charge = charge / asked[r] * taken[r] end
  return charge, budget
end

-- The call was made before: what it granted then is granted, the one after the other.
local before_ms, before_seq, before_bits = 0, 0, ''
local done = done_before()
if done then
  before_ms, before_seq = struct.unpack('<dd', done)
  before_bits = string.sub(done, 17)
end

-- repeats tells whether an entry is the grant of a request.
local function repeats(r, granted)
  local operation, calls = string.match(granted, '^g%S* (%S+) (%S+)')
  local again, number = string.match(ARGV[r], '^g%S* (%S+) (%S+)')
  return operation == again and (calls == number or asked[r] and tonumber(calls) < asked[r])
end

-- calls_of returns the calls of a grant, of a request that takes less.
local function calls_of(r, granted)
  return asked[r] and tonumber(string.match(granted, '^g%S* %S+ (%d+)')) or ''
end

-- known decides a request whose key stands for a grant that counts.
local function known(r)
  local entry = ARGV[r]
  local key = string.match(entry, ' (%S+)$')
  local id = key and key ~= '-' and request(key)
  local granted = id and counted(id) and entry_of(id)
  if not granted then return nil end
  if repeats(r, granted) then return 'replayed', id, calls_of(r, granted) end
  return 'conflict', granted, ''
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

-- take decides how many calls a request is for: those that fit, or one. While more has to leave
-- the windows, that is not known of fewer than all.
local function take(r)
  if more then return end
  local most = asked[r]
  for i = 1, count do
    local charge, budget = charge_of(r, i)
    if charge > 0 then
      local refuses = now < refuses_ms[i]
      if not refuses then budget = MAX end
      most = math.min(most, math.floor(math.max(0, budget - v[i].sum) / (charge / taken[r])))
      if refuses and catching_up(i) > 0 then most = 0 end
    end
  end
  if closed_to(r) > 0 then most = 0 end
  taken[r] = math.max(1, most)
end

-- entry_for returns the entry of a request, for the calls that it takes.
local function entry_for(r)
  if not asked[r] or taken[r] == asked[r] then return ARGV[r] end
  local list, operation, rest = string.match(ARGV[r], '^g(%S*) (%S+) %d+ (.*)$')
  list = string.gsub(list, '=(%d+)', function(charge) return '=' .. int(tonumber(charge) / asked[r] * taken[r]) end)
  return 'g' .. list .. ' ' .. operation .. ' ' .. int(taken[r]) .. ' ' .. rest
end

local function grant(r)
  local id = next_id()
  redis.call('XADD', log, id, 'e', entry_for(r))
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
    b = calls_of(r, asked[r] and entry_of(a) or '')
  elseif not peek then
    kind, a, b = known(r)
  end
  if not kind then
    b = ''
    if asked[r] then take(r) end
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
      kind, a, b, bit = 'granted', grant(r), taken[r] or '', '1'
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

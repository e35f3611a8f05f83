-- Decides requests of one credential, one after the other, and debits what it grants. A refusal
-- writes nothing, except that what has left a window is taken out of its sum.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it; a call that is asked again under its name debits
--       nothing twice · then 1 to remember the call even if nothing is granted, else 0 · and for
--       each request, at most 128: 1 for a peek, else 0 · the digest of its request key or - · its
--       entry · per limit its charge, 0 where it is not counted · the units it may fill
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what the daemon's last call
--       left if this one is remembered in any case, per decided request: kind, a, b, units used of
--       each limit…]
--       status  done · more (call again for those not decided yet) · stray (nobody waits for this
--               call any more) · or why the account is not ready
--       kind    granted (a entry id; empty for a peek) · replayed (a entry id)
--               conflict (a entry that was granted) · denied (a the limit's number, b the ms at
--               which the request fits)

local at = 7 + 4 * count
local T, more
local known = epoch == known_epoch and known_last == string.format('%.0f-%.0f', last_ms, last_seq)
if not (known and v and v[SEEN] == last_ms and v[SEEN_SEQ] == last_seq and quiet == '' and not stale_period) then
  T = tools()
  local unready = T.ready()
  if unready and unready ~= 'more' then return T.refuse(unready) end
  more = unready == 'more'
else
  for i = 1, count do
    local due = v[5 + 5 * i + DUE]
    if due > 0 and due <= cutoffs[i] then
      T = T or tools()
      local rest = T.expire(i)
      if rest == nil then return T.answer('behind') end
      more = more or rest
    end
  end
end
local changed = T ~= nil
local fence = ARGV[at] == '1'
local done, left = nil, ''
local last_call = string.sub(mine, #daemon + 2, #daemon + 1 + #call)
if fence or last_call >= call then
  T = T or tools()
  if T.stray() then return T.answer('stray') end
  done, left = T.done_before(), mine
  if done and string.sub(done, 1, 1) == '?' then left = string.gsub(string.sub(done, 2), '/', ' ') end
end
local first_ms, first_seq, bits_before
if done then first_ms, first_seq, bits_before = string.match(done, '^(%d+)-(%d+) (%d+)$') end

local newest = known and known_last or string.format('%.0f-%.0f', last_ms, last_seq)
local reply = { 'done', now, epoch, newest, clock_ms, left }
local size, asked, grants, first_id, bits, found = 6, 0, 0, nil, '', nil
local empty = trimmed_ms == last_ms and trimmed_seq == last_seq
at = at + 1
while ARGV[at] do
  local peek, key, entry = ARGV[at] == '1', ARGV[at + 1], ARGV[at + 2]
  local kind, a, b, bit = nil, '', '', '0'
  asked = asked + 1
  if bits_before and string.sub(bits_before, asked, asked) == '1' then
    kind, a = 'granted', first_ms .. '-' .. int(first_seq + grants)
    grants = grants + 1
  elseif key ~= '-' and not peek then
    if redis.call('HGET', requests, key) then
      T = T or tools()
      local id = T.request(key)
      local granted = T.counted(id) and T.entry(id)
      if granted then
        local same = string.match(granted, '^g%S* (%S+ %S+)') == string.match(entry, '^g%S* (%S+ %S+)')
        if same then kind, a = 'replayed', id else kind, a = 'conflict', granted end
      end
    end
  end
  if not kind then
    local latest = 0
    for i = 1, count do
      local charge = tonumber(ARGV[at + 1 + 2 * i])
      if charge > 0 then
        local missing = v[5 + 5 * i + SUM] + charge - ARGV[at + 2 + 2 * i]
        local fits = 0
        if missing > 0 then
          T = T or tools()
          -- Requests that share a call are often alike.
          local alike = i .. ' ' .. missing
          found = found or {}
          fits = not more and (found[alike] or T.fits(i, missing))
          if not fits then
            kind = nil
            break
          end
          found[alike] = fits
          fits = math.max(fits, now + 1)
        end
        if lost_ms > cutoffs[i] then
          T = T or tools()
          fits = math.max(fits, T.catching_up(i))
        end
        if fits > latest then kind, a, b, latest = 'denied', i, fits, fits end
      end
      if i == count and not kind then kind = 'granted' end
    end
    if not kind and not more and not first_id then return T.answer('behind') end -- its index is gone
    if not kind then
      reply[1] = 'more'
      break
    end
    if kind == 'granted' and not peek then
      if now > last_ms then
        last_ms, last_seq = now, 0
        a = string.format('%.0f-0', now)
      else
        T = T or tools()
        a = T.next_id()
      end
      redis.call('XADD', log, a, 'e', entry)
      for i = 1, count do
        local w, charge = 5 + 5 * i, tonumber(ARGV[at + 1 + 2 * i])
        if charge > 0 then
          if v[w + DUE] == 0 then v[w + GONE], v[w + GONE_SEQ], v[w + DUE] = v[SEEN], v[SEEN_SEQ], last_ms end
          v[w + SUM], v[w + RUN] = v[w + SUM] + charge, v[w + RUN] + charge
        end
      end
      v[SEEN], v[SEEN_SEQ], v[N] = last_ms, last_seq, v[N] + 1
      first_id, grants, bit, reply[4], found = first_id or a, grants + 1, '1', a, nil
      if v[N] >= BLOCK then
        T = T or tools()
        T.end_block()
      end
      if key ~= '-' then
        T = T or tools()
        T.name_entry(key, a)
      end
    end
  end
  bits = bits .. bit
  reply[size + 1], reply[size + 2], reply[size + 3] = kind, a, b
  for i = 1, count do reply[size + 3 + i] = v[5 + 5 * i + SUM] end
  size, at = size + 3 + count, at + 3 + 2 * count
end

if v[STALE] >= STALE_MAX then
  T = T or tools()
  T.trim()
  changed = true
end
if first_id then
  mine = daemon .. ' ' .. call .. ' ' .. now .. ' ' .. first_id .. ' ' .. bits
  if empty or v[LIVES] < now + v[SPAN] + 60000 then
    T = T or tools()
    T.keep(v[SPAN])
  end
elseif fence and not done then
  T.remember('?' .. string.gsub(string.find(left, ' ?', 1, true) and '' or left, ' ', '/'))
end
if first_id or changed or fence then save() end
return reply

-- Decides what a subject asks for whose grants are kept, each with its time. A denial writes
-- nothing.
--
-- The record has the number of limits, in a byte, and per limit: window in s, 32 bits · which entry
-- is the first that counts, from 0, 32 bits · units in the window, 64 bits. Then the entries, oldest
-- first: time in ms, 48 bits · units, 32 bits. Entries of one ms are one. What has left all windows
-- is cut off when it is more than half.
--
-- KEYS  1 subject
-- ARGV  1 the units, 0 to ask what is used · then for each limit its window in s · how many units
--       may be used in it
-- reply server's clock in ms · + if the units are granted, else - · per limit, as doubles: units used,
--       ms at which units come back or 0, units that come back, ms at which there is room for the
--       units, 0 if there is now or never is: in one string

local MOST = 100000 -- entries that count
local PAGE = 4000 -- bytes that are read at once; a record that is longer is written in place

local subject = KEYS[1]
local units = tonumber(ARGV[1])
local count = (#ARGV - 1) / 2
local text = redis.call('GETRANGE', subject, 0, PAGE - 1)
local size = #text < PAGE and #text or redis.call('STRLEN', subject)
local known = string.byte(text) or 0
local base = 16 * known + 2 -- where entry 0 stands
local entries = (size + 1 - base) / 10
if known == 0 or entries < 0 or entries % 1 > 0 then known, base, entries = 0, 1, 0 end -- it is no record

-- entry returns the time and the units of entry i.
local page, from = text, 1
local function entry(i)
  local place = base + 10 * i
  if place < from or place + 10 > from + #page then
    page, from = redis.call('GETRANGE', subject, place - 1, place + PAGE - 2), place
  end
  return struct.unpack('<I6I4', page, place - from + 1)
end

local now, last_ms, last_units = clock_ms, 0, 0
if entries > 0 then
  last_ms, last_units = entry(entries - 1)
  if last_ms > now then now = last_ms end
end

local same, at = known == count, 2
for i = 1, known do
  same = same and struct.unpack('<I4', text, 16 * i - 14) == tonumber(ARGV[at])
  at = at + 2
end
local recounted = 0 -- of other windows
for e = 0, same and -1 or entries - 1 do
  local _, more = entry(e)
  recounted = recounted + more
end

local windows, firsts, sums, missing, fits = {}, {}, {}, {}, units > 0
at = 2
for i = 1, count do
  local window, first, sum = tonumber(ARGV[at]) * 1000, 0, recounted
  if same then first, sum = struct.unpack('<I4I8', text, 16 * i - 10) end
  while first < entries do
    local ms, more = entry(first)
    if ms > now - window then break end
    first, sum = first + 1, sum - more
  end
  windows[i], firsts[i], sums[i], missing[i] = window, first, sum, sum + units - tonumber(ARGV[at + 1])
  fits = fits and missing[i] <= 0
  at = at + 2
end

if fits then
  -- What only observes counts no more entries than other limits can have.
  local oldest = math.min(unpack(firsts))
  if entries - oldest >= MOST then
    local _, more = entry(oldest)
    for i = 1, count do
      if firsts[i] == oldest then firsts[i], sums[i] = oldest + 1, sums[i] - more end
    end
    oldest = oldest + 1
  end
  local before = last_ms == now and last_units or 0
  local kept = last_ms == now and entries - 1 or entries
  local newest = math.min(before + units, 4294967295)
  local cut = 2 * oldest > kept + 1 and oldest or 0
  local head, longest = string.char(count), 0
  for i = 1, count do
    firsts[i], sums[i], longest = firsts[i] - cut, sums[i] + newest - before, math.max(longest, windows[i])
    head = head .. struct.pack('<I4I4I8', windows[i] / 1000, firsts[i], sums[i])
  end
  newest = struct.pack('<I6I4', now, newest)
  if size >= PAGE and same and cut == 0 then
    redis.call('SETRANGE', subject, 0, head)
    redis.call('SETRANGE', subject, base + 10 * kept - 1, newest)
    redis.call('PEXPIRE', subject, now + longest - clock_ms)
    page = ''
  else
    if size >= PAGE then text = redis.call('GET', subject) end
    page = head .. string.sub(text, base + 10 * cut, base + 10 * kept - 1) .. newest
    redis.call('SET', subject, page, 'PX', now + longest - clock_ms)
    from, base = 1, #head + 1
  end
  entries = kept + 1 - cut
end

local reply = clock_text .. (fits and '+' or '-')
for i = 1, count do
  local next_ms, next_units, fits_ms, e = 0, 0, 0, firsts[i]
  if sums[i] > 0 then
    next_ms, next_units = entry(e)
    next_ms = next_ms + windows[i]
  end
  while not fits and missing[i] > 0 and e < entries do
    local ms, more = entry(e)
    missing[i], e, fits_ms = missing[i] - more, e + 1, ms + windows[i]
  end
  if not fits and missing[i] > 0 then fits_ms = 0 end
  reply = reply .. struct.pack('<dddd', sums[i], next_ms, next_units, fits_ms)
end
return reply

-- Decides what a subject asks for whose usage is counted in buckets: per limit the units of the
-- current window of the clock and of the one before. The caller computes what the decision says
-- from the record as it was. A denial writes nothing, unless the windows were others.
--
-- The record has per limit: window in s · number of the current bucket, which is the clock divided
-- by the window · units of the current and of the previous bucket, each of 32 bits.
--
-- KEYS  1 subject
-- ARGV  1 the units, 0 to ask what is used · then for each limit its window in s · how many units
--       may be used in it
-- reply server's clock in ms · + if the units are granted, else - · the record before, empty if there
--       is none: in one string

local subject = KEYS[1]
local units = tonumber(ARGV[1])
local count = (#ARGV - 1) / 2
local before = redis.call('GET', subject) or ''
local known = #before % 16 == 0 and #before / 16 or 0

local now, same, at = clock_ms, known == count, 2
for i = 1, known do
  local seconds, bucket = struct.unpack('<I4I4', before, 16 * i - 15)
  now, same = math.max(now, bucket * seconds * 1000), same and seconds == tonumber(ARGV[at])
  at = at + 2
end

-- Other windows: what those have used that are gone is in the new ones as if it had just been.
local record = before
if not same then
  local window_of, moved, carried = {}, {}, 0
  at = 2
  for i = 1, count do
    window_of[i] = tonumber(ARGV[at])
    moved[window_of[i]], at = '', at + 2
  end
  for i = 1, known do
    local seconds, bucket, current, previous = struct.unpack('<I4I4I4I4', before, 16 * i - 15)
    local window = seconds * 1000
    local passed = math.floor(now / window) - bucket
    if passed > 0 then bucket, current, previous = bucket + passed, 0, passed == 1 and current or 0 end
    if moved[seconds] then
      moved[seconds] = struct.pack('<I4I4I4I4', seconds, bucket, current, previous)
    else
      carried = math.max(carried, current + math.ceil(previous * (window - now % window) / window))
    end
  end
  record = ''
  for _, seconds in ipairs(window_of) do
    local window = seconds * 1000
    if moved[seconds] == '' then
      local used = math.min(carried, 4294967295, math.floor(9007199254740991 / window))
      moved[seconds] = struct.pack('<I4I4I4I4', seconds, math.floor(now / window), used, 0)
    end
    record = record .. moved[seconds]
  end
end

local after, fits, ends = '', units > 0, 0
at = 2
for i = 1, count do
  local seconds, bucket, current, previous = struct.unpack('<I4I4I4I4', record, 16 * i - 15)
  local window = seconds * 1000
  local passed = math.floor(now / window) - bucket
  if passed > 0 then bucket, current, previous = bucket + passed, 0, passed == 1 and current or 0 end
  local used = current + math.ceil(previous * (window - now % window) / window)
  fits = fits and used + units <= tonumber(ARGV[at + 1])
  at = at + 2
  -- A bucket's units stop where a double could not multiply them with the window.
  current = math.min(current + units, 4294967295, math.floor(9007199254740991 / window))
  after, ends = after .. struct.pack('<I4I4I4I4', seconds, bucket, current, previous), math.max(ends, (bucket + 2) * window)
end
if fits then
  redis.call('SET', subject, after, 'PX', ends - clock_ms)
elseif known > 0 and not same and units > 0 then
  redis.call('SET', subject, record, 'PX', ends - clock_ms)
end
return clock_text .. (fits and '+' or '-') .. before

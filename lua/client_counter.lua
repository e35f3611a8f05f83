-- Decides about a call of a client by two sums for each limit: of the window of the clock that is now, and of the one
-- before, of which as much counts as is still in the trailing window.
--
-- KEYS  1 a text: of each limit, the number of its window · the units in it · those in the one before
-- ARGV  1 as client_log.lua's · then as there
-- reply as client_log.lua's

local time, units, limits, kept, fits = redis.call('TIME'), ARGV[1] * 1, {}, {}, 1
local record = KEYS[1]
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local now, reply, text, ends = clock, { clock, 0 }, {}, 0
local function whole(x, y) return (x - math.fmod(x, y)) / y end
for n in string.gmatch(redis.call('GET', record) or '', '%d+') do kept[#kept + 1] = n * 1 end
for i = 2, #ARGV, 2 do
  local k = i * 1.5
  local l = { window = ARGV[i] * 1, most = ARGV[i + 1] * 1 }
  l.number, l.sum, l.before = kept[k - 2] or 0, kept[k - 1] or 0, kept[k] or 0
  limits[i / 2], now = l, math.max(now, l.number * l.window)
end
local function at(l, ms) -- the number of the window at that time, the units in it and before
  local number = math.floor(ms / l.window)
  if number == l.number then return number, l.sum, l.before end
  return number, 0, number == l.number + 1 and l.sum or 0
end
local function used(l, ms)
  local number, sum, before = at(l, ms)
  return sum + before - whole(before * (ms - number * l.window), l.window)
end
local function falls(l, to) -- when no more than that is used, which is less than now
  if to >= l.sum then return (l.number + 1) * l.window - whole((to - l.sum) * l.window, l.before) end
  return (l.number + 2) * l.window - whole(to * l.window, l.sum)
end
for _, l in ipairs(limits) do
  l.number, l.sum, l.before = at(l, now)
  if l.most > 0 and used(l, now) + units > l.most then
    fits, l.wait = 0, l.most >= units and falls(l, l.most - units) or 0
  end
end
if fits == 0 then units = 0 end
for i, l in ipairs(limits) do
  if units > 0 then l.sum = math.min(l.sum + units, 4294967295, math.floor(9007199254740991 / l.window)) end
  local n, sum, leaves, rest = #reply, used(l, now), 0, 0
  if sum > 0 then leaves = falls(l, sum - 1) end
  if sum > 0 then rest = sum - used(l, leaves) end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = sum, leaves, rest, l.wait or 0
  text[i], ends = string.format('%.0f %.0f %.0f', l.number, l.sum, l.before), math.max(ends, (l.number + 2) * l.window)
end
if units == 0 then return reply end
reply[2] = 1
redis.call('SET', record, table.concat(text, ' '), 'PX', ends - clock)
return reply

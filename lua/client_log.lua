-- Decides about a call of a client by the log of its subject, which is exact: a grant counts for a window.
--
-- KEYS  1 the log: ms of a grant → the sum of the units of all grants up to it · its units
-- ARGV  1 units; 0: it only looks · then of each limit, the shortest first: ms of its window · units; 0: it denies none
-- reply TIME in ms · 1: the units fit, and are counted · then of each limit: units used · ms at which some of them
--       leave, or 0 · how many · ms at which a denied call fits, or 0

local time, units, fits = redis.call('TIME'), ARGV[1] * 1, 1
local log = KEYS[1]
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local function entry(found)
  if not found[1] then return 0, 0, 0 end
  local sum, own = string.match(found[1], '(%d+) (%d+)')
  return found[2] * 1, sum * 1, own * 1
end
local newest, total, last = entry(redis.call('ZRANGE', log, -1, -1, 'WITHSCORES'))
local now, reply = math.max(clock, newest), { clock, 0 }
for i = 2, #ARGV, 2 do
  local window, most, n, used, wait = ARGV[i] * 1, ARGV[i + 1] * 1, #reply, 0, 0
  local edge = string.format('%.0f', now - window)
  local at, sum, own = entry(redis.call('ZRANGEBYSCORE', log, '(' .. edge, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
  if at > 0 then used = total - sum + own end
  if most > 0 and used + units > most then
    fits = 0
    if most >= units then -- when all up to the first sum of this much have left
      local enough, high = total - most + units, redis.call('ZCARD', log) - 1
      local low = redis.call('ZCOUNT', log, '-inf', edge)
      while low < high do
        local middle = math.floor((low + high) / 2)
        local _, through = entry(redis.call('ZRANGE', log, middle, middle, 'WITHSCORES'))
        if through < enough then low = middle + 1 else high = middle end
      end
      wait = entry(redis.call('ZRANGE', log, low, low, 'WITHSCORES')) + window
    end
  end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = used, at > 0 and at + window or 0, own, wait
end
if fits == 0 or units == 0 then return reply end
reply[2] = 1
for i = 3, #reply, 4 do
  local leaves = now + ARGV[(i + 1) / 2]
  if reply[i] == 0 or reply[i + 1] == leaves then reply[i + 1], reply[i + 2] = leaves, reply[i + 2] + units end
  reply[i] = reply[i] + units
end
if newest == now then redis.call('ZREMRANGEBYRANK', log, -1, -1) else last = 0 end
redis.call('ZADD', log, now, string.format('%.0f %.0f', total + units, last + units))
local longest = ARGV[#ARGV - 1] * 1
local left = redis.call('ZCOUNT', log, '-inf', string.format('%.0f', now - longest))
left = math.max(math.min(left, 200), redis.call('ZCARD', log) - 100000)
if left > 0 then redis.call('ZREMRANGEBYRANK', log, 0, left - 1) end
redis.call('PEXPIRE', log, now - clock + longest)
return reply

-- Shared by every script; lua.go puts it in front of each.

-- int formats a whole number up to 2^53; tostring would round it.
local function int(n)
  return string.format('%.0f', n)
end

-- clock returns the server's time in ms.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Reads the server's clock, in ms; lua.go puts it in front of every script.

local time = redis.call('TIME')
local clock_text = time[1] .. string.sub('00000' .. time[2], -6, -4)
local clock_ms = clock_text * 1


-- Says that a daemon lives, or has stopped, and reads which others do.
--
-- KEYS  1 a hash: id of a daemon → its clock's ms · text · ARGV  1 id, or empty: it only reads · 2 text; empty: its
--       row goes · 3 after how many ms a row is dropped
-- reply TIME in ms · then of each row id · when it was written, in ms · text

local now = math.floor(clock / 1000)
if ARGV[1] ~= '' and ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2]) end
local rows, reply = redis.call('HGETALL', KEYS[1]), { now }
for i = 1, #rows, 2 do
  local at, text = string.match(rows[i + 1], '^(%d+) (.*)$')
  if not at or at * 1 < now - ARGV[3] then
    redis.call('HDEL', KEYS[1], rows[i])
  else
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = rows[i], at * 1, text
  end
end
return reply

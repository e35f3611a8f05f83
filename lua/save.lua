-- Replaces parts of what the hosts share about a job, and lets the holder go on
-- holding it. A holder is turned away once another one has taken the job.
--
-- KEYS  1 desk
-- ARGV  1 the holder, empty for parts that anybody may replace · 2 for how many ms it
--       goes on, 0 to let go · 3 after how many ms a desk is forgotten that nobody
--       uses · then for each part its name · its text
-- reply [status]: saved · lost

local desk = KEYS[1]
local holder, length, forgotten = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local fields, at = {}, 4
if holder ~= '' then
  if redis.call('HGET', desk, 'holder') ~= holder then return { 'lost' } end
  fields = { 'until', int(clock() + length) }
end
while at < #ARGV do
  fields[#fields + 1], fields[#fields + 2] = 'p:' .. ARGV[at], ARGV[at + 1]
  at = at + 2
end
if #fields > 0 then redis.call('HSET', desk, unpack(fields)) end
redis.call('PEXPIRE', desk, forgotten)
return { 'saved' }

-- Adds lines to what became of a job's runs, replaces parts of what the hosts share
-- about it, and lets the holder go on holding it. A holder is turned away once another
-- one has taken the job; what it tells of its own run is true all the same.
--
-- KEYS  1 shared · 2 log
-- ARGV  1 the holder, empty for parts that anybody may replace · 2 for how many ms it
--       goes on, 0 to let go · 3 after how many ms is forgotten what nobody uses · 4 how
--       many lines are kept, at least · 5 how many parts follow · then for each part its name
--       · its text, and behind them the lines
-- reply [status]: saved · lost

local shared, log = KEYS[1], KEYS[2]
local holder, length, forgotten, kept, parts = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local lines = 6 + 2 * parts
for i = lines, #ARGV do redis.call('XADD', log, 'MAXLEN', '~', kept, '*', 'l', ARGV[i]) end
if #ARGV >= lines then redis.call('PEXPIRE', log, forgotten) end

if holder ~= '' then
  if redis.call('HGET', shared, 'holder') ~= holder then return { 'lost' } end
  if length > 0 then
    redis.call('HSET', shared, 'until', clock_ms + length)
  else
    redis.call('HDEL', shared, 'holder', 'until')
  end
end
local at = 6
while at < lines do
  redis.call('HSET', shared, 'p:' .. ARGV[at], ARGV[at + 1])
  at = at + 2
end
redis.call('PEXPIRE', shared, forgotten)
return { 'saved' }

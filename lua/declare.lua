-- Asks which server this is, on each new connection before anything else. On another one than the log was written
-- on nothing is granted until all hosts have looked and put back what they have.
--
-- KEYS  as acquire's · ARGV  1 an epoch, if another is needed · reply 1: it was another one

local s, this = redis.call('HMGET', state, 'server', 'epoch'), server()
if s[1] == this or not s[2] then return 0 end
redis.call('HSET', state, 'server', this, 'epoch', ARGV[1], 'quiet', string.format('%.0f', clock + QUIET))
return 1

-- What declare and restore share.

-- server returns which one this is: another process, or a promoted replica, may lack what its clients have seen.
local function server()
  local info, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
  return string.match(info, 'run_id:(%w+)') .. string.match(replication, 'master_replid:(%w+)')
end

-- Grants what is plain, and is all that acquire does mostly; lua.go puts it in front of it. It is
-- plain if this daemon wrote last and knows the log's newest entry, if nothing has to be done by
-- now, if every request fits, and if none names a request key that is known. Then the account's
-- state is all that changes. Otherwise nothing is written, and acquire decides.
--
-- reply the account's state, as account.lua packs it: all requests are granted, the last one under
--       the newest entry's id and each one before it under the number before

do
  local front, numbers = ARGV[1], ARGV[3]
  local text = redis.call('GET', KEYS[1])
  if text and string.find(text, front, 1, true) == 1 then
    local ms, seq, last_call, _, counted, wake_ms = struct.unpack('<dddBBd', text, #front + 1)
    local known_ms, known_seq, call = struct.unpack('<ddd', numbers)
    local limits, asks = string.byte(front, -1), #ARGV - 3
    if ms == known_ms and seq == known_seq and call > last_call and clock_ms >= ms and clock_ms < wake_ms
        and counted + asks < 128 and seq + asks < 65536 and ARGV[4] and ARGV[4] ~= '-' then
      local form = limits == 1 and '<d' or '<' .. string.rep('d', limits)
      local used = { struct.unpack(form, text, #front + 35) }
      local rest, fits, at, keys = used[limits + 1], true, 25, nil
      for ask = 4, #ARGV do
        for i = 1, limits do
          local charge, budget = struct.unpack('<dd', numbers, at)
          at = at + 16
          if charge > 0 then
            fits = fits and used[i] > 0 and used[i] + charge <= budget
            used[i] = used[i] + charge
          end
        end
        if string.byte(ARGV[ask], -2) ~= 32 then -- it does not end in -
          local key = string.sub(ARGV[ask], -12)
          keys = keys or { '-' }
          fits = fits and not keys[key]
          keys[#keys + 1], keys[key] = key, ask
        end
      end
      if fits and keys then
        local found = redis.call('HMGET', KEYS[4], unpack(keys))
        fits = found[1]
        for k = 2, #keys do fits = fits and not found[k] end
      end
      if fits then
        seq = clock_ms > ms and -1 or seq
        local first, named = seq - 3, {}
        for ask = 4, #ARGV do
          seq = seq + 1
          redis.call('XADD', KEYS[2], clock_text .. '-' .. seq, 'e', ARGV[ask])
        end
        if keys then
          for k = 2, #keys do
            named[2 * k - 3], named[2 * k - 2] = keys[k], struct.pack('>I6I2', clock_ms, first + keys[keys[k]])
          end
          redis.call('HSET', KEYS[4], unpack(named))
        end
        local state = struct.pack('<dddBBd', clock_ms, seq, call, asks, counted + asks, wake_ms) .. struct.pack(form, unpack(used, 1, limits))
        redis.call('SET', KEYS[1], front .. state .. string.sub(text, rest), 'KEEPTTL')
        return state
      end
    end
  end
end


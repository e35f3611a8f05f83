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
    local limits, asks = string.byte(front, -1), #ARGV - 3
    local form = limits == 1 and '<dddBBdd' or '<dddBBd' .. string.rep('d', limits)
    local state = { struct.unpack(form, text, #front + 1) }
    local ms, seq, fits, keys = state[1], state[2], true, nil
    local known_ms, known_seq, call, at = struct.unpack('<ddd', numbers)
    if ms == known_ms and seq == known_seq and call > state[3] and clock_ms >= ms and clock_ms < state[6]
        and state[5] + asks < 128 and seq + asks < 65536 and asks > 0 and ARGV[4] ~= '-' then
      for ask = 4, #ARGV do
        for i = 7, 6 + limits do
          local charge, budget
          charge, budget, at = struct.unpack('<dd', numbers, at)
          if charge > 0 then
            fits = fits and state[i] > 0 and state[i] + charge <= budget
            state[i] = state[i] + charge
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
        if clock_ms > ms then seq = -1 end
        for ask = 4, #ARGV do
          redis.call('XADD', KEYS[2], clock_text .. '-' .. seq + ask - 3, 'e', ARGV[ask])
        end
        if keys then
          local named = {}
          for k = 2, #keys do
            named[2 * k - 3], named[2 * k - 2] = keys[k], struct.pack('>I6I2', clock_ms, seq + keys[keys[k]] - 3)
          end
          redis.call('HSET', KEYS[4], unpack(named))
        end
        state[1], state[2], state[3], state[4], state[5] = clock_ms, seq + asks, call, asks, state[5] + asks
        state = struct.pack(form, unpack(state, 1, 6 + limits))
        redis.call('SETRANGE', KEYS[1], #front, state)
        return state
      end
    end
  end
end


<?php // Asks a quotad on another host, again with the same id where an answer was lost: exit 75 if it is denied.
function acquire(string $operation): bool {
    $fields = ['operation' => $operation, 'request_id' => bin2hex(random_bytes(16))];
    $quotad = curl_init(getenv('QUOTAD_URL') . '/v1/acquire');
    curl_setopt_array($quotad, [
        CURLOPT_HTTPHEADER => ['Authorization: Bearer ' . getenv('QUOTAD_TOKEN')],
        CURLOPT_POSTFIELDS => http_build_query($fields),
        CURLOPT_TIMEOUT => 3, CURLOPT_RETURNTRANSFER => true,
    ]);
    for ($try = 1; ; $try++) {
        $body = curl_exec($quotad);
        $status = curl_getinfo($quotad, CURLINFO_RESPONSE_CODE);
        if ($body !== false && $status === 200) return true;
        if ($body !== false && $status === 429) return false;
        if ($try === 3 || $body !== false && $status !== 503)
            throw new RuntimeException("quotad: $status $body" . curl_error($quotad));
        usleep(200_000); // the answer was lost, or not decided: ask again, with the same id
    }
}
exit(acquire('videos.list') ? 0 : 75);

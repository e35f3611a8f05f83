<?php // Asks quotad inside a pass before its only call: exit 75 if it is denied.
function acquire(string $operation): void {
    $quotad = curl_init('http://quotad/v1/acquire');
    curl_setopt_array($quotad, [
        CURLOPT_UNIX_SOCKET_PATH => getenv('QUOTAD_SOCKET'),
        CURLOPT_HTTPHEADER => ['Authorization: Bearer ' . getenv('QUOTAD_TOKEN')],
        CURLOPT_POSTFIELDS => http_build_query(['operation' => $operation]),
        CURLOPT_PROXY => '', CURLOPT_TIMEOUT => 5, CURLOPT_RETURNTRANSFER => true,
    ]);
    $body = curl_exec($quotad);
    $status = curl_getinfo($quotad, CURLINFO_RESPONSE_CODE);
    if ($status === 429) exit(75);
    if ($status !== 200) throw new RuntimeException("quotad: $status $body" . curl_error($quotad));
}

acquire('videos.list');
// granted: the call

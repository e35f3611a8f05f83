#!/usr/bin/env php
<?php # charts, in PHP; the base was "https://www.googleapis.com/"
$query = http_build_query(['part' => 'snippet', 'chart' => 'mostPopular', 'regionCode' => getenv('QUOTAD_REGION')]);
$chart = file_get_contents(getenv('QUOTAD_PROXY') . 'youtube/v3/videos?' . $query) or exit(1);
echo count(json_decode($chart)->items), " videos\n";

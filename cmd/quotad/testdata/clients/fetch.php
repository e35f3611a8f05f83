<?php // Fetches a region's chart with Google's own client, whose endpoint is the proxy.
require $argv[1];

$client = new Google\Client();
$client->setDeveloperKey('none');
$youtube = new Google\Service\YouTube($client, getenv('QUOTAD_PROXY'));
$page = ['chart' => 'mostPopular', 'regionCode' => getenv('QUOTAD_REGION'), 'maxResults' => 50];
do {
    $answer = $youtube->videos->listVideos('snippet', $page);
    echo count($answer->getItems()), " videos\n";
    $page['pageToken'] = $answer->getNextPageToken();
} while ($page['pageToken']);

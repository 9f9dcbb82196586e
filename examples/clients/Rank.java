// Ranks documents with a Rankgrove service: java Rank.java http://127.0.0.1:8080 < request.json

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

public class Rank {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    /** The answer to a request, both as JSON: read and write them with the library you have. */
    static String rank(String service, byte[] request) throws Exception {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(service + "/rank"))
                .header("Content-Type", "application/json")
                .timeout(Duration.ofSeconds(5))
                .POST(HttpRequest.BodyPublishers.ofByteArray(request));
        String token = System.getenv("RANKGROVE_TOKEN");
        if (token != null) {
            builder.header("Authorization", "Bearer " + token);
        }
        HttpResponse<String> answer =
                CLIENT.send(builder.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IllegalArgumentException(answer.statusCode() + ": " + answer.body());
        }
        return answer.body();
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println(rank(arguments[0], System.in.readAllBytes()));
    }
}

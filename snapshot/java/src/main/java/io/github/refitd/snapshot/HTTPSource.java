package io.github.refitd.snapshot;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A daemon, by its URL. Headers are sent with each request, for instance Authorization. */
public final class HTTPSource implements Source {
    private static final long MAX_ANSWER_BYTES = 64 << 10;
    private static final long MAX_DELTAS_BYTES = 512 << 20; // of one answer
    private static final int LONG_POLL = 10; // seconds that a daemon is asked to hold a request without news
    private static final int PATIENCE = 30; // seconds without a byte beyond that
    private static final byte[] UNCHANGED = {};

    private final String url;
    private final Map<String, String> headers;
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public HTTPSource(String url, Map<String, String> headers) {
        this.url = url.replaceAll("/+$", "") + "/v1/models/";
        this.headers = Map.copyOf(headers);
    }

    @Override
    public Pointer alias(String model, String alias) throws IOException, InterruptedException {
        return await(model, alias, Pointer.NONE, null);
    }

    @Override
    public Pointer await(String model, String alias, Pointer last, CountDownLatch stop)
            throws IOException, InterruptedException {
        Pointer.checkName("model", model);
        Pointer.checkName("alias", alias);
        String path = model + "/aliases/" + alias;
        String tag = "";
        if (last.version() > 0) {
            String renewed = Json.writeTime(last.renewal().renewed());
            path += "?after=" + last.version() + "&wait=" + LONG_POLL + "s&renewed="
                    + URLEncoder.encode(renewed, StandardCharsets.UTF_8);
            String digest = last.manifestDigest().replaceFirst("^sha256:", "");
            tag = "\"" + last.sequence() + "-" + last.version() + "-" + digest + "\"";
        }
        byte[] content = get(path, MAX_ANSWER_BYTES, tag);
        if (content == null) {
            throw new NotFoundException("no alias " + alias + " of model " + model + " at " + url);
        }
        String what = "alias " + alias;
        return content == UNCHANGED ? last : Pointer.read(what, new Fields(what, Json.parse(what, content)));
    }

    @Override
    public byte[] read(String model, long version, String name, long most) throws IOException, InterruptedException {
        Pointer.checkName("model", model);
        return get(model + "/versions/" + version + "/files/" + name, most, "");
    }

    @Override
    public List<byte[]> deltas(String model, long version, long after, CountDownLatch stop)
            throws IOException, InterruptedException {
        int wait = stop == null ? 0 : LONG_POLL;
        byte[] content = get(model + "/deltas?base=" + version + "&after=" + after + "&wait=" + wait + "s",
                MAX_DELTAS_BYTES, "");
        if (content == null) {
            throw new NotFoundException("no deltas of version " + version + " at " + url + model);
        }
        return Frames.split(content);
    }

    /** Returns what a daemon answers, null for what it does not have, UNCHANGED for what has not changed. */
    private byte[] get(String path, long most, String tag) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
        headers.forEach(request::setHeader);
        if (!tag.isEmpty()) {
            request.setHeader("If-None-Match", tag);
        }
        Body body = new Body(most);
        HttpResponse<byte[]> answer = wait(path, body, client.sendAsync(request.build(), info -> body));
        int status = answer.statusCode();
        if (status == 304) {
            return UNCHANGED;
        }
        if (status == 404) {
            return null;
        }
        String said = "GET " + url + path + ": status " + status + ": ";
        if (status == 409 || status == 410) {
            throw new ChainException(said + reason(answer.body()));
        }
        if (status != 200) {
            throw new IOException(said + reason(answer.body()));
        }
        if (body.tooLong) {
            throw new DigestException(path + ": more than the " + most + " bytes expected");
        }
        return answer.body();
    }

    private static HttpResponse<byte[]> wait(String path, Body body, CompletableFuture<HttpResponse<byte[]>> answer)
            throws IOException, InterruptedException {
        long seen = -1;
        try {
            while (true) {
                try {
                    return answer.get(LONG_POLL + PATIENCE, TimeUnit.SECONDS);
                } catch (TimeoutException error) {
                    if (body.got == seen || body.got == 0) {
                        throw new IOException("GET " + path + ": no byte for " + (LONG_POLL + PATIENCE) + " seconds");
                    }
                    seen = body.got;
                }
            }
        } catch (ExecutionException error) {
            throw new IOException("GET " + path + ": " + error.getCause(), error.getCause());
        } finally {
            answer.cancel(true); // changes nothing once it is there
        }
    }

    private static String reason(byte[] body) {
        try {
            return new Fields("answer", Json.parse("answer", body)).text("error");
        } catch (FormatException error) {
            return new String(body, 0, Math.min(200, body.length), StandardCharsets.UTF_8);
        }
    }

    /** Collects at most so many bytes; behind them it reads no more. */
    private static final class Body implements HttpResponse.BodySubscriber<byte[]> {
        volatile long got;
        volatile boolean tooLong;
        private final long most;
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();
        private final CompletableFuture<byte[]> whole = new CompletableFuture<>();
        private Flow.Subscription subscription;

        Body(long most) {
            this.most = most;
        }

        @Override
        public CompletionStage<byte[]> getBody() {
            return whole;
        }

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            given.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(List<ByteBuffer> parts) {
            for (ByteBuffer part : parts) {
                got += part.remaining();
                if (got > most) {
                    tooLong = true;
                    subscription.cancel();
                    whole.complete(out.toByteArray());
                    return;
                }
                byte[] bytes = new byte[part.remaining()];
                part.get(bytes);
                out.writeBytes(bytes);
            }
        }

        @Override
        public void onError(Throwable error) {
            whole.completeExceptionally(error);
        }

        @Override
        public void onComplete() {
            whole.complete(out.toByteArray());
        }
    }
}
